#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes: builds the libFuzzer targets with clang and runs each for a while from its corpus. Exits with 1 when something
# crashed, leaked, hung or was reported by a sanitizer; the input, made small, and how to run it again are printed.
#   tests/judged/fuzz/campaign.sh [--merge] [SECONDS] [TARGET...]     60 seconds of each of parse, explain, responder, requester, cm, ring, api
# --merge adds to the corpus of each target up to 20 inputs that reached code that nothing in it had reached.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../../../tools/lib/setup.sh"
cd "$ROOT"

merge=
if [ "${1:-}" = --merge ]; then merge=yes && shift; fi
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(parse explain responder requester cm ring api)

# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD clang libclang-rt-dev llvm
build fuzz "${targets[@]/#/fuzz_}"

bin=build/fuzz/bin
work=$(mktemp -d "${TMPDIR:-/tmp}/uroce-fuzz.XXXXXX")
corpus=tests/judged/fuzz/corpus
limits=(-max_len=2048 -timeout=20 -rss_limit_mb=2048)

# report_crash TARGET FILE: makes the input small, says what it does.
report_crash() {
  local target=$1 file=$2 small=$2.small
  "$bin/fuzz_$target" -minimize_crash=1 -max_total_time=30 -exact_artifact_path="$small" "$file" >/dev/null 2>&1 || true
  [ -s "$small" ] || small=$file
  printf '   %s bytes; it does:\n' "$(stat -c %s "$small")"
  "$bin/fuzz_$target" "${limits[@]}" "$small" 2>&1 | grep -E 'broken invariant|runtime error|ERROR: |SUMMARY: ' | sed 's/^/     /' || true
  od -An -v -tx1 "$small" | head -n 20
  printf '   again: %s %s\n' "$bin/fuzz_$target" "$small"
  printf '   once fixed: cp %s %s/crash_WHAT\n' "$small" "$corpus/$target"
}

bad=0
summary=
for target in "${targets[@]}"; do
  say "fuzz_$target for $seconds seconds"
  mkdir "$work/$target"
  log=$work/$target.log
  result=clean
  "$bin/fuzz_$target" "${limits[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$work/$target-" "$work/$target" "$corpus/$target" >"$log" 2>&1 || result=FAILED
  if [ $result = FAILED ]; then
    bad=1
    tail -n 40 "$log"
    for file in "$work/$target"-{crash,leak,timeout,oom}-*; do
      if [ -f "$file" ]; then report_crash "$target" "$file"; fi
    done
  fi
  stat_of() { sed -n "s/^stat::$1: *//p" "$log"; }
  covered=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1)
  summary+=$(printf '%-10s %9s runs %7s/s  %5s edges %5s new inputs  %s' "$target" "$(stat_of number_of_executed_units)" \
    "$(stat_of average_exec_per_sec)" "${covered#cov: }" "$(stat_of new_units_added)" "$result")$'\n'
  if [ -n "$merge" ] && [ $result = clean ]; then
    # Judged by edges, in a copy: how often each was taken would fill the repository.
    cp -r "$corpus/$target" "$work/merged"
    "$bin/fuzz_$target" -merge=1 -use_counters=0 -merge_control_file="$work/merge" "$work/merged" "$work/$target" \
      >/dev/null 2>&1
    "$HERE/pick_inputs.py" "$work/merge" 20 | xargs -r cp -v -t "$corpus/$target"
    rm -r "$work/merged" "$work/merge"
  fi
done

say "summary"
printf '%s' "$summary"
printf 'corpus: %s files, %s bytes\n' "$(find "$corpus" -type f | wc -l)" "$(find "$corpus" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')"
if [ $bad -eq 0 ]; then rm -rf "$work"; else printf 'logs and inputs: %s\n' "$work"; fi
exit $bad
