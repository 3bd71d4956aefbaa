#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two emulated RoCEv2 NICs on this machine: builds, lets rdma_server and rdma_client exchange every operation over four
# QPs, and has Wireshark's dissector and an independent ICRC checker judge what went over the wire.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"
cd "$ROOT"
# shellcheck disable=SC2086
install_packages $PACKAGES_BUILD tshark python3
build release rdma_server rdma_client

bin=build/release/bin
out=$(mktemp -d "${TMPDIR:-/tmp}/uroce-demo.XXXXXX")
port=18515
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; true' EXIT

verdict=0
for op in send send-imm write write-imm read cas faa mixed; do
  say "$op: 4 QPs, 100 messages each of 10000 bytes, verified"
  "$bin/rdma_server" --port $port --pcap "$out/server-$op.pcap" >"$out/server-$op.txt" 2>&1 &
  server=$!
  "$bin/rdma_client" 127.0.0.1 --port $port --op "$op" --size 10000 --iters 100 --verify --pcap "$out/client-$op.pcap" ||
    verdict=1
  wait "$server" || { verdict=1; cat "$out/server-$op.txt" >&2; }
  server=
done

say "Wireshark's view of the first packets of the mixed run ($out/client-mixed.pcap)"
tshark -r "$out/client-mixed.pcap" -c 12 2>/dev/null || true

say "every packet of every run, dissected by tshark and checked by an independent ICRC checker"
python3 tests/programs/wire/tshark_check.py "$out"/*.pcap || verdict=1
python3 tests/programs/wire/icrc_check.py "$out"/*.pcap || verdict=1

if [ $verdict -eq 0 ]; then
  say "all good: every operation verified on both sides, every packet dissected, every ICRC right"
  echo "The captures are in $out: open one with wireshark, or read it with tshark -r FILE -V"
else
  die "something is wrong, see above; outputs are in $out"
fi
