#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Server and client as two processes in a network namespace of their own, seen three times: by each NIC's own capture and by
# tcpdump on lo. tshark and the independent ICRC checker judge all of them.
#   end_to_end.sh BIN_DIR       exit status 77: something needed is missing, see the last line
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
skip() { echo "SKIPPED: $*"; exit 77; }

if [ -z "${UROCE_WIRE_INSIDE:-}" ]; then
  for tool in tshark mergecap tcpdump ip unshare; do command -v $tool >/dev/null || skip "$tool is not installed"; done
  as=-n
  [ "$(id -u)" -eq 0 ] || as=-rn
  unshare $as true 2>/dev/null || skip "no permission to make a network namespace"
  UROCE_WIRE_INSIDE=1 exec unshare $as bash "$0" "$@"
fi

ip link set lo up
ip -6 addr add fd00::1/128 dev lo nodad
ip -6 addr add fd00::2/128 dev lo nodad
out=$(mktemp -d)
pids=()
trap 'for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; rm -rf "$out"' EXIT

# A snapshot length near the packet size: the kernel's ring has that many bytes per packet.
tcpdump -i lo -s 8192 -U --immediate-mode -B 65536 -w "$out/lo.pcap" udp port 4791 2>"$out/tcpdump.log" &
tcpdump=$!
pids+=("$tcpdump")
for _ in $(seq 100); do
  grep -q 'listening on' "$out/tcpdump.log" && break
  kill -0 "$tcpdump" 2>/dev/null || skip "tcpdump may not capture: $(tail -n 1 "$out/tcpdump.log")"
  sleep 0.05
done

run() { # run NAME SERVER_ADDRESS CLIENT_ADDRESS CLIENT_OPTION...
  local name=$1 server_address=$2 client_address=$3
  shift 3
  UROCE_ADDR=$server_address "$bin/rdma_server" --pcap "$out/$name-server.pcap" >"$out/server.log" 2>&1 &
  local server=$!
  pids+=("$server")
  UROCE_ADDR=$client_address "$bin/rdma_client" 127.0.0.1 --verify --pcap "$out/$name-client.pcap" "$@" >"$out/client.log" 2>&1 ||
    { cat "$out/client.log" "$out/server.log"; exit 1; }
  wait "$server" || { cat "$out/server.log"; exit 1; }
}
for size in 0 1 4095 4096 4097 20000; do
  run "v4-$size" 127.0.0.1 127.0.0.2 --op mixed --iters 14 --size $size
done
run v4-mtu256 127.0.0.1 127.0.0.2 --op mixed --iters 14 --size 3001 --mtu 256
run v4-bidir 127.0.0.1 127.0.0.2 --op mixed --iters 14 --size 3001 --bidir
run v6 fd00::1 fd00::2 --op mixed --iters 14 --size 3001

# What tcpdump has seen is complete when it has as many packets as one side's captures together.
count() { python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import roce
print(sum(1 for f in sys.argv[2:] for _ in roce.read_pcap(f)))' "$here" "$@"; }
expected=$(count "$out"/*-client.pcap)
for _ in $(seq 100); do
  [ "$(count "$out/lo.pcap" 2>/dev/null || echo 0)" -ge "$expected" ] && break
  sleep 0.05
done
kill -INT "$tcpdump"
wait "$tcpdump" || true
seen=$(count "$out/lo.pcap")
[ "$expected" -gt 1000 ] || { echo "only $expected packets: this test has not tested"; exit 1; }
[ "$seen" -eq "$expected" ] || { cat "$out/tcpdump.log"; echo "lo saw $seen packets, the clients' captures hold $expected"; exit 1; }
[ "$(count "$out"/*-server.pcap)" -eq "$expected" ] || { echo "server and client captures differ in length"; exit 1; }

python3 "$here/icrc_check.py" --ours "$out"/*.pcap
python3 "$here/tshark_check.py" "$out"/*.pcap
