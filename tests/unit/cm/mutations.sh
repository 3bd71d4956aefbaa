#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Do the seeds notice when the connection manager is wrong? Breaks a copy of it in the ways of tests/unit/cm/mutations/*.patch, one
# at a time, runs seeds until one fails, and prints a table for docs/testing.md.
#   tests/unit/cm/mutations.sh [LAST_SEED [MUTATION...]]     seeds 1..LAST_SEED (default 10000); all mutations
#   tests/unit/cm/mutations.sh --check                       only looks whether the patches still apply
# Exits 1 when a mutation was not noticed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
patches=$here/mutations
. "$here/../../support/planted.sh"
[ "${1:-}" != --check ] || { check_patches; exit; }
last=${1:-10000}
shift || true
[ $# -gt 0 ] || set -- $(names)
enter_copy release -DUROCE_BENCH=OFF -DUROCE_TESTS=ON

missed=0
printf '| %-26s | %5s | %s |\n' 'the connection manager ...' seed 'what the judge says'
printf '| --- | --- | --- |\n'
for mutation in "$@"; do
  apply "$mutation"
  build_copy release cm_seeds
  if build/release/bin/cm_seeds 1 "$last" >out; then
    missed=1
    echo "seed -: NOT NOTICED in $last seeds" >out
  fi
  line=$(grep -m1 '^seed ' out)
  seed=${line#seed } seed=${seed%%:*}
  printf '| %-26s | %5s | %s |\n' "${mutation//-/ }" "$seed" "${line#seed *: }"
  take_back "$mutation"
done
exit $missed
