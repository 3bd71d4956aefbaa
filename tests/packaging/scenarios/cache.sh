# SPDX-License-Identifier: Apache-2.0
# action.yml where there is no tarball: the first job builds uroce and fills the cache, the second one takes it from there. As
# an ordinary user where io_uring is forbidden.
. /tests/scenarios/common.sh
mapfile -t steps < <(sed -n 's/^      run: //p' /uroce/action.yml)
[ ${#steps[@]} = 2 ] && [ "${steps[0]}" = "${steps[1]} find" ] || fail "action.yml has other steps: ${steps[*]}"
as_runner() { as_user /uroce/build/systems/deny_io_uring env "$@"; }
# All jobs get the same sources, also when somebody changes a file of the repository meanwhile: that is another key.
as_user mkdir /tmp/source /tmp/needed
tar -C /uroce --exclude=./build --exclude=./.git -c . | as_user tar -C /tmp/source -x
# What the key covers, and what is only copied: what else there is can't enter a build.
eval "$(grep '^sources=(' /uroce/tools/package/ci.sh)"
tar -C /tmp/source --exclude=tools/learn -c "${sources[@]}" README.md CHANGELOG.md LICENSE | as_user tar -C /tmp/needed -x
# key SOURCE: that of the cache, as the first step finds it.
key() {
  as_user rm -rf /tmp/keys
  as_user mkdir /tmp/keys
  as_runner UROCE_CI_CACHE="$1/uroce-cache" GITHUB_OUTPUT=/tmp/keys/output RUNNER_TEMP=/tmp/keys "$1/tools/package/ci.sh" find >&2
  grep '^key=uroce-' /tmp/keys/output
}

# job NAME SOURCE [PATH]: both steps on a new machine, between them the service's own, which brings what it has kept for this key.
job() {
  local runner=/tmp/$1 key
  as_user mkdir "$runner" "$runner/temp"
  as_user cp -r "$2" "$runner/action"
  as_user touch "$runner/path" "$runner/env" "$runner/output"
  local variables=(GITHUB_ACTION_PATH="$runner/action" GITHUB_PATH="$runner/path" GITHUB_ENV="$runner/env"
    GITHUB_OUTPUT="$runner/output" RUNNER_TEMP="$runner/temp" PATH="${3:-}$PATH")
  as_runner "${variables[@]}" bash -euc "${steps[0]}" >"/tmp/$1.log" 2>&1 || { cat "/tmp/$1.log"; fail "$1: the first step"; }
  key=$(sed -n 's/^key=//p' "$runner/output")
  [[ $key == uroce-debian12-* ]] || fail "$1: the key of the cache is '$key'"
  [ ! -e "/tmp/kept/$key" ] || as_user cp -r "/tmp/kept/$key" "$runner/temp/uroce-cache"
  as_runner "${variables[@]}" UROCE_CI_KEY="$key" bash -euc "${steps[1]}" >"/tmp/$1.log" 2>&1 ||
    { cat "/tmp/$1.log"; echo "key $key, kept: $(ls /tmp/kept 2>&1)"; fail "$1: the second step"; }
  as_user mkdir -p /tmp/kept
  [ -e "/tmp/kept/$key" ] || as_user cp -r "$runner/temp/uroce-cache" "/tmp/kept/$key"
  as_runner PATH="$(cat "$runner/path"):$PATH" uroce run -- ibv_devices | grep -q uroce0 || fail "$1: no NIC"
}
began=$SECONDS
job first /tmp/needed
echo "worked: built, in $((SECONDS - began)) s"

# Whoever compiles now is found out.
mkdir /tmp/forbidden
for tool in cmake ninja gcc g++ cc c++ make; do
  printf '#!/bin/sh\necho "%s was called" >&2\nexit 1\n' $tool >/tmp/forbidden/$tool
  chmod +x /tmp/forbidden/$tool
done
began=$SECONDS
job second /tmp/source /tmp/forbidden:
echo "worked: taken from the cache, in $((SECONDS - began)) s"

# The key depends on the sources only: not on the folder, on what programs leave there that have run, or on pages and tests (the
# second job had these, too). Other sources are built.
as_user cp -r /tmp/source /tmp/changed
as_user mkdir /tmp/changed/tools/package/__pycache__ /tmp/changed/uroce-cache
as_user touch /tmp/changed/tools/package/__pycache__/make_wheel.pyc /tmp/changed/uroce-cache/kept
echo "changed" | as_user tee -a /tmp/changed/README.md /tmp/changed/docs/installing.md /tmp/changed/tools/learn/hex.h >/dev/null
[ "$(key /tmp/first/action)" = "$(key /tmp/changed)" ] || fail "the key depends on what does not enter the build"
echo "// changed" | as_user tee -a /tmp/changed/proto/icrc.cc >/dev/null
[ "$(key /tmp/first/action)" != "$(key /tmp/changed)" ] || fail "the key does not depend on the sources"
as_runner PATH="/tmp/forbidden:$PATH" UROCE_CI_FOLDER=/tmp/first/temp /tmp/changed/tools/package/ci.sh >/tmp/changed.log 2>&1 &&
  fail "changed sources were not built"
grep -q "was called" /tmp/changed.log || { cat /tmp/changed.log; fail "changed sources were not built"; }

# A cache whose libraries are gone, as after an upgrade of the image, is of no use.
as_user cp -r /tmp/second /tmp/third
third=$(echo /tmp/third/temp/uroce-cache/*)
[ -x "$third/bin/uroce" ] || fail "no uroce in $third"
as_runner PATH="/tmp/forbidden:$PATH" UROCE_CI_FOLDER=/tmp/third/temp /tmp/second/action/tools/package/ci.sh >/tmp/third.log 2>&1 ||
  { cat /tmp/third.log; fail "the cache without a key from the service"; }
isal=$(ldd "$third/lib/uroce/libibverbs.so.1" | sed -n 's/.*libisal.* => \(.*\) (.*/\1/p')
[ -n "$isal" ] || fail "which library can go?"
mv "$isal" "$isal.gone"
as_runner PATH="/tmp/forbidden:$PATH" UROCE_CI_FOLDER=/tmp/third/temp /tmp/second/action/tools/package/ci.sh >/tmp/third.log 2>&1 &&
  fail "a cache without its libraries was taken"
grep -q "was called" /tmp/third.log || { cat /tmp/third.log; fail "a cache without its libraries was taken"; }
echo "worked: other sources, and other libraries, are not taken from the cache"
