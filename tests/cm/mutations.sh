#!/usr/bin/env bash
# Do the seeds notice when the connection manager is wrong? Breaks a copy of it in the ways of tests/cm/mutations/*.patch, one
# at a time, runs seeds until one fails, and prints a table for docs/testing.md.
#   tests/cm/mutations.sh [LAST_SEED [MUTATION...]]     seeds 1..LAST_SEED (default 10000); all mutations
#   tests/cm/mutations.sh --check                       only looks whether the patches still apply
# Exits 1 when a mutation was not noticed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ "${1:-}" = --check ]; then
  for patch in "$here"/mutations/*.patch; do
    patch -s -p1 -F0 --dry-run -d "$root" <"$patch" || { echo "$patch does not apply" >&2; exit 1; }
  done
  exit 0
fi
last=${1:-10000}
shift || true
[ $# -gt 0 ] || set -- $(cd "$here/mutations" && ls *.patch | sed 's/\.patch$//')

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$root" && git ls-files -z -- CMakeLists.txt CMakePresets.json proto engine verbs tools tests ':!tests/fuzz/corpus' |
  tar -c --null -T - ) | tar -x -C "$scratch"
cd "$scratch"
cmake --preset release -DUROCE_BENCH=OFF -DUROCE_TESTS=ON >log

missed=0
printf '| %-26s | %5s | %s |\n' 'the connection manager ...' seed 'what the judge says'
printf '| --- | --- | --- |\n'
for mutation in "$@"; do
  patch -s -p1 -F0 <"$here/mutations/$mutation.patch"
  cmake --build build/release --target cm_seeds >log 2>&1 || { cat log; exit 2; }
  if build/release/bin/cm_seeds 1 "$last" >out; then
    missed=1
    echo "seed -: NOT NOTICED in $last seeds" >out
  fi
  line=$(grep -m1 '^seed ' out)
  seed=${line#seed } seed=${seed%%:*}
  printf '| %-26s | %5s | %s |\n' "${mutation//-/ }" "$seed" "${line#seed *: }"
  patch -s -R -p1 -F0 <"$here/mutations/$mutation.patch"
done
exit $missed
