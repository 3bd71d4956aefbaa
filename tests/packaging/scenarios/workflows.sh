# SPDX-License-Identifier: Apache-2.0
# docs/examples/ci: what the workflows do behind the action, as an ordinary user where io_uring is forbidden. In rust.yml a
# project without crates (tests/packaging/rust) stands in for one that uses the crate ibverbs.
. /tests/scenarios/common.sh
tarball=$(echo /packages/uroce-*-linux-x86_64.tar.zst)

# workflow NAME FOLDER: runs the last step of NAME.yml in FOLDER, behind the action with the inputs that are there.
workflow() {
  local file=/uroce/docs/examples/ci/$1.yml runner=/tmp/$1 settings=()
  as_user mkdir "$runner"
  as_user touch "$runner/path" "$runner/env"
  as_user env GITHUB_PATH="$runner/path" GITHUB_ENV="$runner/env" RUNNER_TEMP="$runner" UROCE_TARBALL="$tarball" \
    UROCE_CI_RUN="$(sed -n 's/^          run: //p' "$file")" UROCE_CI_OPTIONS="$(sed -n 's/^          options: //p' "$file")" \
    /uroce/tools/package/ci.sh >"$runner/log" 2>&1 || { cat "$runner/log"; fail "$1: the action"; }
  readarray -t settings <"$runner/env"
  sed -n '/^      - run: |/,/^      - if/p' "$file" | sed '1d; /^      - if/d; s/^          //' >"$runner/step"
  (cd "$2" && as_runner_in "$2" PATH="$(cat "$runner/path"):$PATH" ${settings[@]+"${settings[@]}"} bash -eu "$runner/step") >"$runner/log" 2>&1 ||
    { cat "$runner/log"; fail "$1.yml"; }
  grep -E "${3:-.}" "$runner/log" | tail -n 1 | grep . || { cat "$runner/log"; fail "$1.yml printed something else"; }
  echo "worked: $1.yml"
}
as_runner_in() { # FOLDER COMMAND...
  local folder=$1
  shift
  (cd "$folder" && setpriv --reuid 1234 --regid 1234 --clear-groups --inh-caps=-all /uroce/build/systems/deny_io_uring env "$@")
}

as_user cp -r /examples/cmake /tmp/project
workflow cmake /tmp/project "tests passed, 0 tests failed"
workflow python /tmp "'uroce0', 'uroce1'"
as_user mkdir /tmp/ranks
as_user mpicc.openmpi -o /tmp/ranks/ranks /uroce/tests/programs/clients/mpi_check.c
workflow mpi /tmp/ranks
as_user cp -r /tests/rust /tmp/crate
before=$(sed -n 's/^      - run: \(cargo .*\)/\1/p' /uroce/docs/examples/ci/rust.yml)
(cd /tmp/crate && as_runner_in /tmp/crate CARGO_NET_OFFLINE=true $before) >/tmp/cargo.log 2>&1 || { cat /tmp/cargo.log; fail "rust.yml: $before"; }
workflow rust /tmp/crate "2 passed; 0 failed"
