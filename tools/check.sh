#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: release, then under address+undefined and thread sanitizers.
#   tools/check.sh          everything (what CI runs)
#   tools/check.sh quick    the release build and its tests only
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"
cd "$ROOT"
# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD $PACKAGES_TEST

jobs=$(nproc)
run_tests() { # run_tests PRESET CTEST_ARGUMENT...
  local preset=$1
  shift
  say "tests (preset $preset)"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --progress --no-tests=error "$@"
}

# Labels of tests, which are the names of their folders, as targets to build and as a pattern for ctest.
ASAN="proto nic transport cm rules replay faults engine broker ibverbs fuzz conformance sim"
TSAN="engine ibverbs"
targets() { printf 'tests_%s ' $1; }
labels() { echo "^(${1// /|})\$"; }

if [ "${1:-}" != quick ]; then
  # The sanitizers see all of the libraries here; the end-to-end runs would only be slower, not see more.
  build asan $(targets "$ASAN")
  run_tests asan -L "$(labels "$ASAN")"
  build tsan $(targets "$TSAN")
  run_tests tsan -L "$(labels "$TSAN")"
fi
build release
run_tests release
