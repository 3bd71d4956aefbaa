# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that break a copy of the code on purpose, one patch at a time, and see whether a test notices:
# tests/judged/sim/mutations.sh, tests/unit/cm/mutations.sh, tests/judged/fuzz/canaries.sh. They set `patches`, a folder.
# shellcheck shell=bash disable=SC2154

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# No fuzz: a patch that only nearly fits would break something else.
apply() { # apply PATCH [OPTION...]
  local patch=$patches/$1.patch
  shift
  patch -s -p1 -F0 --no-backup-if-mismatch "$@" <"$patch"
}
take_back() { apply "$1" -R; }

names() { (cd "$patches" && ls ./*.patch | sed 's|^./||; s|\.patch$||'); }

# check_patches: whether all of them still apply.
check_patches() {
  local name
  for name in $(names); do
    apply "$name" --dry-run -d "$root" || { echo "$patches/$name.patch does not apply" >&2; return 1; }
  done
}

# enter_copy PRESET [CMAKE_OPTION...]: goes into a copy of the code, which is gone when the script ends, and configures it.
enter_copy() {
  local preset=$1
  shift
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  (cd "$root" && git ls-files -z -- CMakeLists.txt CMakePresets.json proto engine verbs tools tests pcaps |
    tar -c --null -T -) | tar -x -C "$scratch"
  cd "$scratch"
  cmake --preset "$preset" "$@" >log
}

build_copy() { # build_copy PRESET TARGET
  cmake --build "build/$1" --target "$2" >log 2>&1 || { tail -n 40 log; exit 2; }
}
