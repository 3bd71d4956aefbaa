#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs all tests: under address+undefined and thread sanitizers, then the release build.
#   tools/check.sh          every test at least once (what CI runs)
#   tools/check.sh quick    the release build and all of its tests
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"
cd "$ROOT"
# Tests start programs with LD_PRELOAD, which the dynamic linker splits at spaces and colons.
case $ROOT in *[[:space:]:]*) die "tests can't run in \"$ROOT\"; move the clone to a path without spaces and colons" ;; esac
# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD $PACKAGES_TEST

# Debian's programs before others, for its python3: hundreds of tests start it, and a shim like pyenv's, or many packages, make each
# start two or three times as long.
[ ! -x /usr/bin/python3 ] || PATH=/usr/bin:$PATH

# The last lines say how it ended, and where the time went.
step=setup step_began=0
times=()
enter() { # enter STEP
  times+=("$((SECONDS - step_began)) s $step")
  step=$1 step_began=$SECONDS
}
finish() {
  local status=$?
  enter end
  printf '%s\n' '' "${times[@]}"
  if [ $status -eq 0 ]; then say "check.sh: all passed, $SECONDS s"; else say "check.sh: FAILED in: ${times[-1]#* s }"; fi
}
trap finish EXIT

# Twice the cores: many tests wait more than they compute. A pair of programs counts as two.
jobs=$(($(nproc) * 2))
run_tests() { # run_tests PRESET CTEST_ARGUMENT...
  local preset=$1
  shift
  enter "tests, $preset"
  say "tests (preset $preset)"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --progress --no-tests=error "$@"
}

# Labels of tests, which are the names of their folders, as targets to build and as a pattern for ctest.
ASAN="proto nic transport cm rules replay faults engine broker ibverbs record fuzz conformance sim"
TSAN="engine ibverbs"
# Of those that the address sanitizer sees, these have neither sockets nor the machine's time. They are not compiled again for the
# release build, which would take minutes.
ONCE="proto nic transport cm rules replay faults fuzz"
targets() { printf 'tests_%s ' $1; }
labels() { echo "^(${1// /|})\$"; }

if [ "${1:-}" != quick ]; then
  # The sanitizers see all of the libraries here; the end-to-end runs would only be slower, not see more.
  enter "build, asan"
  build asan $(targets "$ASAN")
  # Freed memory is kept until 16 MB of it are there. The default, 256, is a new page for most of what small tests ask for.
  ASAN_OPTIONS=quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS} run_tests asan -L "$(labels "$ASAN")"
  enter "build, tsan"
  build tsan $(targets "$TSAN")
  run_tests tsan -L "$(labels "$TSAN")"
fi
enter "build, release"
if [ "${1:-}" = quick ]; then ONCE=; fi
# More sources at once where they are built once, and not after each change: a sixth faster.
LEFT_OUT=${ONCE// /;} UNITY_BATCH=${CI:+36} build release
run_tests release
# clang-tidy on what differs from UROCE_BASE (else from origin/main, else in the last commit), as far as 30 seconds reach.
enter tidy
base=${UROCE_BASE:-$(git rev-parse -q --verify origin/main || true)}
if [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then base=HEAD~1; fi
if git rev-parse -q --verify "$base^{commit}" >/dev/null; then
  say "tidy (what differs from $base)"
  tools/tidy.sh --since "$base" --seconds 30
fi
