#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the simulator notice when the transport is wrong? Breaks a copy of it in the ways of tests/judged/sim/mutations/*.patch, one
# at a time, runs seeds until one fails, and prints a table for docs/testing.md.
#   tests/judged/sim/mutations.sh [LAST_SEED [MUTATION...]]     seeds 1..LAST_SEED (default 1000); all mutations
#   tests/judged/sim/mutations.sh --check                       only looks whether the patches still apply
# A patch with a line "Seeds: OPTIONS" has seeds of its own.
# Exits 1 when a mutation was not noticed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
patches=$here/mutations
. "$here/../../support/planted.sh"
[ "${1:-}" != --check ] || { check_patches; exit; }
last=${1:-1000}
shift || true
[ $# -gt 0 ] || set -- $(names)
enter_copy release -DUROCE_BENCH=OFF -DUROCE_TESTS=ON

missed=0
printf '| %-26s | %5s | %4s | %s\n' 'the transport ...' seed exit 'what the simulator says |'
printf '| --- | --- | --- | --- |\n'
for mutation in "$@"; do
  apply "$mutation"
  build_copy release uroce-sim
  status=0
  seeds=$(sed -n 's/^Seeds: //p' "$patches/$mutation.patch")
  build/release/bin/uroce-sim ${seeds:---seeds 1..$last} --failures "$scratch" >"$scratch/out" 2>"$scratch/err" || status=$?
  line=$(grep -m1 '^seed ' "$scratch/out" || true)
  [ $status -ne 0 ] || { missed=1; line="seed -: NOT NOTICED in ${seeds:-$last seeds}"; }
  seed=${line#seed } seed=${seed%%:*}
  [ $status -ne 127 ] || line="$line ($(tail -n1 "$scratch/err"))"
  printf '| %-26s | %5s | %4s | %s |\n' "${mutation//-/ }" "$seed" "$status" "${line#seed *: }"
  take_back "$mutation"
done
exit $missed
