#!/usr/bin/env bash
# Runs many seeds of the simulator, one process per core, and prints what failed. For nights, and before a release.
#   tests/sim/campaign.sh [FIRST [COUNT [PRESET]]]     default: 10,000 seeds from 1 on, preset release
# Exits with the status of a process that found something (127 crash, 128 liveness, 129 correctness), else 0.
set -euo pipefail
cd "$(dirname "$0")/../.."
first=${1:-1} count=${2:-10000} preset=${3:-release}
[ -d "build/$preset" ] || cmake --preset "$preset"
cmake --build "build/$preset" --target uroce-sim
out=$(mktemp -d "${TMPDIR:-/tmp}/uroce-sim.XXXXXX")
echo "captures of failing seeds: $out"

cores=$(nproc)
share=$(((count + cores - 1) / cores))
pids=()
for ((i = 0; i < cores; i++)); do
  from=$((first + i * share)) to=$((first + (i + 1) * share - 1))
  last=$((first + count - 1))
  ((to <= last)) || to=$last
  ((from <= to)) || continue
  "build/$preset/bin/uroce-sim" --seeds "$from..$to" --keep-going --failures "$out" >"$out/log.$i" 2>&1 &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
cat "$out"/log.*
exit $status
