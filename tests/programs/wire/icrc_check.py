#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks captures packet by packet: RoCEv2, UDP checksum 0, right ICRC. Prints a line per file and a verdict.

    icrc_check.py [--ours] [--bad N] FILE...

--ours  also demand what a uroce NIC promises for IPv4: DF set, Identification 0
--bad N demand exactly N packets with a wrong ICRC (for captures of deliberate corruption)
"""
import argparse
import sys

import roce


def complaints(packet, ours):
    """What is wrong with a decoded packet besides its ICRC. `ours`: it comes from a uroce NIC."""
    if packet["udp"]["checksum"] != 0:
        yield f"UDP checksum 0x{packet['udp']['checksum']:04x}"
    if not packet["ip"]["checksum_ok"]:
        yield "IP header checksum"
    if ours and packet["ip"]["version"] == 4 and (packet["ip"]["df"], packet["ip"]["id"]) != (1, 0):
        yield f"DF {packet['ip']['df']}, ID {packet['ip']['id']}"


def check(path, ours):
    """(packets, packets with a wrong ICRC, complaints)"""
    packets = wrong = 0
    found = []
    for number, (_, frame) in enumerate(roce.read_pcap(path), 1):
        packets += 1
        try:
            packet = roce.decode(frame)
        except roce.NotRoce as why:
            found.append(f"packet {number}: {why}")
            continue
        if not packet["icrc_ok"]:
            wrong += 1
        found += [f"packet {number}: {why}" for why in complaints(packet, ours)]
    return packets, wrong, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--bad", type=int, default=0, metavar="N")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    total = bad = 0
    failed = False
    for path in args.files:
        packets, wrong, found = check(path, args.ours)
        total += packets
        bad += wrong
        if found or packets == 0:
            failed = True
            print(f"{path}: {packets} packets, {len(found)} complaints; " + "; ".join(found[:3]))
    failed |= bad != args.bad
    print(f"ICRC: {len(args.files)} files, {total} packets, {total - bad} right, {bad} wrong: " +
          ("FAILED" if failed else "ok"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
