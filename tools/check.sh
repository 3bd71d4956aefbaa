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

if [ "${1:-}" != quick ]; then
  # The sanitizers see all of the libraries here; the end-to-end runs would only be slower, not see more.
  build asan tests_proto tests_nic tests_transport tests_engine tests_ibverbs tests_fuzz
  run_tests asan -L 'proto|nic|transport|engine|ibverbs|fuzz'
  build tsan tests_engine tests_ibverbs
  run_tests tsan -L 'engine|ibverbs'
fi
build release
run_tests release
