#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs many seeds of the simulator, a hundred at a time on each core, and prints what failed. For nights, and before a release.
#   tests/judged/sim/campaign.sh [FIRST [COUNT [PRESET]]]     default: 10,000 seeds from 1 on, preset release
#   JOBS=N      processes at once (default: one per core)
#   LEDGER=FILE keeps a line of every hundred that is done: commit, first and last seed, what uroce-sim says of them. What it
#               already has of this commit is not run again, so the same command goes on where it was stopped.
# Exits with the status of a process that found something (127 crash, 128 liveness, 129 correctness), else 0.
set -euo pipefail
cd "$(dirname "$0")/../../.."
first=${1:-1} count=${2:-10000} preset=${3:-release} at_once=100
last=$((first + count - 1))
[ -d "build/$preset" ] || cmake --preset "$preset"
cmake --build "build/$preset" --target uroce-sim
out=$(mktemp -d "${TMPDIR:-/tmp}/uroce-sim.XXXXXX")
cp "build/$preset/bin/uroce-sim" "$out" # The tree may change while this runs.
ledger=$(realpath "${LEDGER:-$out/ledger}")
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
touch "$ledger"
echo "captures of failing seeds: $out; ledger: $ledger"

run() { # FIRST LAST
  local status=0
  "$out/uroce-sim" --seeds "$1..$2" --keep-going --failures "$out" >"$out/log.$1" 2>&1 || status=$?
  [ $status -eq 0 ] || { cat "$out/log.$1" && echo $status >"$out/status"; }
  # A crash ends the process: the seeds behind it are still to be run.
  [ $status -eq 127 ] || echo "$commit $1 $2 $(tail -n1 "$out/log.$1")" >>"$ledger"
}

for ((from = first; from <= last; from += at_once)); do
  to=$((from + at_once - 1 < last ? from + at_once - 1 : last))
  ! grep -q "^$commit $from $to " "$ledger" || continue
  while (($(jobs -rp | wc -l) >= ${JOBS:-$(nproc)})); do wait -n || true; done
  run $from $to &
done
wait
awk -v first="$first" -v last="$last" -v commit="$commit" '
  $1 == commit && $2 >= first && $3 <= last { seeds += $3 - $2 + 1; failed += $9; packets += $11 }
  END { printf "%d of %d seeds from %d on, %d failed: %d packets\n", seeds, last - first + 1, first, failed, packets }' "$ledger"
exit "$(cat "$out/status" 2>/dev/null || echo 0)"
