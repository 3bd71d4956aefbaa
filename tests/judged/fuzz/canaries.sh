#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does each fuzzer still find a bug? Plants the one of tests/judged/fuzz/canaries/TARGET.patch in a copy of the code, and fuzzes
# that until something is found.
#   tests/judged/fuzz/canaries.sh [SECONDS [TARGET...]]    at most 300 seconds each; parse, explain, responder, requester, cm, ring, api
#   tests/judged/fuzz/canaries.sh --check                  only looks whether the patches still apply
# Exits with 1 when a target found nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
patches=$here/canaries
. "$here/../../support/planted.sh"
[ "${1:-}" != --check ] || { check_patches; exit; }
seconds=${1:-300}
shift || true
[ $# -gt 0 ] || set -- parse explain responder requester cm ring api
enter_copy fuzz
missed=0
for target in "$@"; do
  apply "$target"
  build_copy fuzz "fuzz_$target"
  mkdir -p "found/$target"
  began=$SECONDS
  if "build/fuzz/bin/fuzz_$target" -max_len=2048 -timeout=20 -max_total_time="$seconds" -artifact_prefix=found/ \
    "found/$target" "tests/judged/fuzz/corpus/$target" >"found/$target.log" 2>&1; then
    missed=1
    printf '%-10s NOT FOUND in %s s: %s\n' "$target" "$seconds" "$(head -n 1 "$patches/$target.patch")"
  else
    printf '%-10s found in %s s: %s\n' "$target" $((SECONDS - began)) "$(head -n 1 "$patches/$target.patch")"
    grep -m1 -E 'broken invariant|runtime error|ERROR: |violated|SUMMARY: ' "found/$target.log" | sed 's/^/           /' || true
  fi
  take_back "$target"
done
exit $missed
