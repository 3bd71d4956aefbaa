# SPDX-License-Identifier: Apache-2.0
# action.yml, as an ordinary user where io_uring is forbidden: its steps are executed, and then what the steps behind it would be.
. /tests/scenarios/common.sh
mapfile -t steps < <(sed -n 's/^      run: //p' /uroce/action.yml)
[ "${steps[*]}" = '$GITHUB_ACTION_PATH/tools/package/ci.sh find $GITHUB_ACTION_PATH/tools/package/ci.sh' ] || fail "action.yml has other steps: ${steps[*]}"
tarball=$(echo /packages/uroce-*-linux-x86_64.tar.zst)
as_runner() { as_user /uroce/build/systems/deny_io_uring env "$@"; }
as_user mkdir /tmp/runner

# act VARIABLE=VALUE...: the steps with these inputs; the next steps' PATH and environment go to /tmp/next.
act() {
  as_user rm -rf /tmp/runner/path /tmp/runner/env /tmp/runner/temp
  as_user touch /tmp/runner/path /tmp/runner/env
  local variables=(GITHUB_ACTION_PATH=/uroce GITHUB_PATH=/tmp/runner/path GITHUB_ENV=/tmp/runner/env RUNNER_TEMP=/tmp/runner/temp "$@")
  as_user rm -f /tmp/runner/output
  as_user touch /tmp/runner/output
  as_runner "${variables[@]}" GITHUB_OUTPUT=/tmp/runner/output bash -euc "${steps[0]}" >/tmp/act.log 2>&1 &&
    as_runner "${variables[@]}" UROCE_CI_KEY="$(sed -n 's/^key=//p' /tmp/runner/output)" bash -euc "${steps[1]}" >>/tmp/act.log 2>&1
}
# next_step COMMAND: as the service runs it.
next_step() {
  local settings=()
  readarray -t settings </tmp/runner/env
  as_runner PATH="$(cat /tmp/runner/path):$PATH" ${settings[@]+"${settings[@]}"} bash -euc "$1"
}

act UROCE_TARBALL="$tarball" || { cat /tmp/act.log; fail "the action"; }
next_step "uroce run -- ibv_devices" | grep -q uroce0 || fail "uroce run behind the action"
next_step "uroce doctor" | grep "seccomp filter forbids" || fail "io_uring is not forbidden here"
next_step "ibv_devices" | grep -q uroce0 && fail "a NIC without run: env"

act UROCE_TARBALL="$tarball" UROCE_CI_RUN=env UROCE_CI_OPTIONS="--devices 2" || { cat /tmp/act.log; fail "the action with run: env"; }
next_step "ibv_devices" | grep -q uroce1 || fail "no two NICs behind run: env"
# The last step of docs/examples/ci/github.yml.
example=$(sed -n '/^      - run: |/,$p' /uroce/docs/examples/ci/github.yml | sed 1d)
next_step "$example" >/tmp/example.log 2>&1 || { cat /tmp/example.log; fail "docs/examples/ci/github.yml"; }
echo "worked: github.yml"

# The same elsewhere: docs/examples/ci/gitlab.yml.
as_runner UROCE_TARBALL="$tarball" UROCE_CI_FOLDER=/tmp/runner/gitlab UROCE_CI_RUN=env UROCE_CI_OPTIONS="--devices 2" \
  bash -euc 'eval "$(/uroce/tools/package/ci.sh)"; ibv_devinfo' | grep -q "uroce1" || fail "the lines of gitlab.yml"
echo "worked: gitlab.yml"

# What is wrong is said, and the step fails.
act UROCE_TARBALL=/tmp/none.tar.zst && fail "a tarball that is not there"
grep -q "there is no tarball /tmp/none.tar.zst" /tmp/act.log || { cat /tmp/act.log; fail "no clear words about it"; }
act && fail "no tarball at all, and nothing to build with"
grep -q "set UROCE_TARBALL" /tmp/act.log || { cat /tmp/act.log; fail "no clear words about it"; }
act UROCE_TARBALL="$tarball" UROCE_CI_RUN=all && fail "run: all"
grep -q "neither path nor env" /tmp/act.log || { cat /tmp/act.log; fail "no clear words about it"; }
