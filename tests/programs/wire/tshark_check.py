#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has tshark dissect captures and compares every field with our own decoder in Python. Prints a verdict.

    tshark_check.py FILE...

Every packet must be dissected as InfiniBand over UDP down to its last payload byte, without a "malformed" or error mark.
tshark guesses protocols from payload bytes, and reports what it guessed wrongly as malformed; these guesses are switched
off. Exit status 77: there is no tshark.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import roce

# Everything in Wireshark 4.0 that claims InfiniBand payload by looking at it.
GUESSES = ("eth_over_ib", "fc_infiniband", "iser_infiniband", "lnet_ib", "mellanox_eoib", "nvme_rdma",
           "rpcrdma_infiniband", "sdp_infiniband", "smb_direct_infiniband", "smcr_infiniband")
# Opcodes that Wireshark 4.0 does not know: FLUSH, ATOMIC WRITE and the RoCEv2 CNP. It stops after their BTH.
UNKNOWN_TO_TSHARK = (0x1C, 0x1D, 0x81)

# tshark's name, header and field of ours, how its text reads
NUMBER = lambda text: int(text, 0)
FLAG = lambda text: {"0": 0, "1": 1, "False": 0, "True": 1}[text]
BYTES = lambda text: int(text.replace(":", ""), 16)
COMPARED = [
    ("infiniband.bth.opcode", "bth", "opcode", NUMBER), ("infiniband.bth.se", "bth", "se", FLAG),
    ("infiniband.bth.m", "bth", "m", FLAG), ("infiniband.bth.padcnt", "bth", "pad", NUMBER),
    ("infiniband.bth.tver", "bth", "tver", NUMBER), ("infiniband.bth.p_key", "bth", "pkey", NUMBER),
    ("infiniband.bth.destqp", "bth", "dqpn", NUMBER), ("infiniband.bth.a", "bth", "a", FLAG),
    ("infiniband.bth.psn", "bth", "psn", NUMBER), ("infiniband.reth.va", "reth|atomiceth", "va", NUMBER),
    ("infiniband.reth.r_key", "reth|atomiceth", "rkey", NUMBER), ("infiniband.reth.dmalen", "reth", "len", NUMBER),
    ("infiniband.aeth.syndrome", "aeth", "syndrome", NUMBER), ("infiniband.aeth.msn", "aeth", "msn", NUMBER),
    ("infiniband.atomiceth.swapdt", "atomiceth", "swap_add", NUMBER),
    ("infiniband.atomiceth.cmpdt", "atomiceth", "compare", NUMBER),
    ("infiniband.atomicacketh.origremdt", "atomicacketh", "original", NUMBER),
    ("infiniband.immdt", "immdt", "imm", BYTES), ("infiniband.ieth", "ieth", "rkey", BYTES),
    ("infiniband.deth.q_key", "deth", "qkey", NUMBER), ("infiniband.deth.srcqp", "deth", "sqpn", NUMBER),
]
EXTRA = ["frame.protocols", "data.len", "udp.dstport", "udp.checksum", "_ws.malformed", "_ws.expert.severity"]
ERROR = 0x00800000  # expert severity "error"; warnings (checksum off and the like) lie below


def dissect(path):
    """One dictionary of texts per packet."""
    names = [c[0] for c in COMPARED] + EXTRA
    # RoCEv2 sends checksum zero over IPv6 too, as RFC 6935 allows for tunnels.
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f",
               "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
    for guess in GUESSES:
        command += ["--disable-heuristic", guess]
    for name in names:
        command += ["-e", name]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"tshark failed on {path}: {run.stderr.strip()}")
    return [dict(zip(names, line.split("|"))) for line in run.stdout.splitlines()]


def complaint(texts, packet):
    """What is wrong with tshark's view of one packet, or None."""
    if texts["_ws.malformed"] or (texts["_ws.expert.severity"] and NUMBER(texts["_ws.expert.severity"]) >= ERROR):
        return "marked as malformed or as an error"
    layers = texts["frame.protocols"].split(":")
    if "udp" not in layers or "infiniband" not in layers:
        return f"dissected as {texts['frame.protocols']}"
    if NUMBER(texts["udp.dstport"]) != roce.ROCE_PORT or NUMBER(texts["udp.checksum"]) != 0:
        return "UDP port or checksum"
    partly = packet["bth"]["opcode"] in UNKNOWN_TO_TSHARK
    for name, header, field, read in COMPARED:
        if partly and header != "bth":
            continue
        ours = next((packet[h][field] for h in header.split("|") if h in packet), None)
        theirs = read(texts[name]) if texts[name] else None
        if ours != theirs:
            return f"{name}: tshark says {texts[name] or 'nothing'}, we say {ours}"
    if partly or packet["bth"]["dqpn"] <= 1:  # QP1 carries management datagrams, which tshark takes further apart
        return None
    carried = len(packet["payload"]) + packet["bth"]["pad"]
    shown = NUMBER(texts["data.len"]) if texts["data.len"] else 0
    return None if carried == shown else f"tshark shows {shown} bytes of payload, the packet has {carried}"


def check(paths):
    """(number of packets, complaints) of each file. tshark is slow to start: it sees all of them as one."""
    frames = [[frame for _, frame in roce.read_pcap(path)] for path in paths]
    with tempfile.TemporaryDirectory() as scratch:
        joined = os.path.join(scratch, "all.pcap")
        subprocess.run(["mergecap", "-a", "-F", "nsecpcap", "-w", joined, *paths], check=True, capture_output=True)
        views = dissect(joined)
    if len(views) != sum(map(len, frames)):
        raise RuntimeError(f"tshark lists {len(views)} packets of {sum(map(len, frames))}")
    results, at = [], 0
    for file in frames:
        complaints = []
        for number, (texts, frame) in enumerate(zip(views[at:at + len(file)], file), 1):
            try:
                why = complaint(texts, roce.decode(frame))
            except roce.NotRoce as error:
                why = str(error)
            if why:
                complaints.append(f"packet {number}: {why}")
        results.append((len(file), complaints))
        at += len(file)
    return results


def main():
    files = sys.argv[1:]
    if not files:
        sys.exit(__doc__)
    if shutil.which("tshark") is None:
        print("SKIPPED: tshark is not installed")
        return 77
    total, failed = 0, False
    for path, (packets, complaints) in zip(files, check(files)):
        total += packets
        if complaints or packets == 0:
            failed = True
            print(f"{path}: {packets} packets, {len(complaints)} complaints; " + "; ".join(complaints[:3]))
    print(f"tshark: {len(files)} files, {total} packets, dissected to the last byte: " + ("FAILED" if failed else "ok"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
