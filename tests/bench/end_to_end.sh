#!/usr/bin/env bash
# One end-to-end figure beside the ceiling under it: RDMA WRITE of 64 KiB messages between two emulated NICs, and raw UDP
# datagrams of the same packet size, taken in turns in one run. Prints medians and their ratio; no pass mark.
#   tests/bench/end_to_end.sh [BUILD_DIR [ROUNDS]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${1:-$root/build/release}/bin
rounds=${2:-5}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for ((i = 0; i < rounds; i++)); do
  "$bin/uroce_bench_udp" blast sendmmsg 4128 1 >>"$out/udp"
  "$bin/rdma_server" --port 18999 --num-qp 1 --json >"$out/server" 2>&1 &
  server=$!
  "$bin/rdma_client" 127.0.0.1 --port 18999 --num-qp 1 --op write --size 64K --iters 16000 --verify --json >>"$out/rdma"
  wait "$server"
done

python3 - "$out" <<'P'
import json, statistics, sys
udp = [json.loads(line)["packets_per_second"] * 4096 * 8e-9 for line in open(sys.argv[1] + "/udp")]
decoder, text, runs = json.JSONDecoder(), open(sys.argv[1] + "/rdma").read().strip(), []
while text:
    run, end = decoder.raw_decode(text)
    runs.append(run)
    text = text[end:].strip()
rdma = [run["initiated"]["gbit_per_s"] for run in runs]
for name, values in ("raw UDP, datagrams of 4128 bytes", udp), ("RDMA WRITE of 64 KiB, MTU 4096, 1 QP", rdma):
    print("%-38s median %6.2f Gb/s  (%s)" % (name, statistics.median(values), ", ".join("%.2f" % v for v in values)))
counters = [run["nic"]["counters"] for run in runs]
print("ratio %.2f; data verified; retransmitted packets %d, ICRC errors %d" % (
    statistics.median(rdma) / statistics.median(udp),
    sum(c["retransmitted_pkts"] for c in counters), sum(c["icrc_errors"] for c in counters)))
P
