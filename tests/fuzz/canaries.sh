#!/usr/bin/env bash
# Does each fuzzer still find a bug? Plants the one of tests/fuzz/canaries/TARGET.patch in a copy of the code, and fuzzes
# that until something is found.
#   tests/fuzz/canaries.sh [SECONDS [TARGET...]]    at most 300 seconds each; parse, responder, requester, cm, api
#   tests/fuzz/canaries.sh --check                  only looks whether the patches still apply
# Exits with 1 when a target found nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ "${1:-}" = --check ]; then
  for patch in "$here"/canaries/*.patch; do
    patch -s -p1 -F0 --dry-run -d "$root" <"$patch" || { echo "$patch does not apply" >&2; exit 1; }
  done
  exit 0
fi
seconds=${1:-300}
shift || true
[ $# -gt 0 ] || set -- parse responder requester cm api

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$root" && git ls-files -z -- CMakeLists.txt CMakePresets.json proto engine verbs tools tests pcaps | tar -c --null -T - ) |
  tar -x -C "$scratch"
cd "$scratch"
cmake --preset fuzz >log
missed=0
for target in "$@"; do
  patch -s -p1 -F0 --no-backup-if-mismatch <"$here/canaries/$target.patch"
  cmake --build build/fuzz --target "fuzz_$target" >log 2>&1 || { tail -n 40 log; exit 2; }
  mkdir -p "found/$target"
  began=$SECONDS
  if "build/fuzz/bin/fuzz_$target" -max_len=2048 -timeout=20 -max_total_time="$seconds" -artifact_prefix=found/ \
    "found/$target" "tests/fuzz/corpus/$target" >"found/$target.log" 2>&1; then
    missed=1
    printf '%-10s NOT FOUND in %s s: %s\n' "$target" "$seconds" "$(head -n 1 "$here/canaries/$target.patch")"
  else
    printf '%-10s found in %s s: %s\n' "$target" $((SECONDS - began)) "$(head -n 1 "$here/canaries/$target.patch")"
    grep -m1 -E 'broken invariant|runtime error|ERROR: |violated|SUMMARY: ' "found/$target.log" | sed 's/^/           /' || true
  fi
  patch -s -R -p1 -F0 --no-backup-if-mismatch <"$here/canaries/$target.patch"
done
exit $missed
