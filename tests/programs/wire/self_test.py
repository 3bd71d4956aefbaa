#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checkers must be able to fail: damages a good capture in several ways and expects each to be found.

    self_test.py CAPTURE
"""
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GLOBAL_HEADER, RECORD_HEADER = 24, 16
ETHERNET, IPV4, UDP = 14, 20, 8
BTH = GLOBAL_HEADER + RECORD_HEADER + ETHERNET + IPV4 + UDP

# name, offset in the file of a byte of the first packet to flip, who must object
DAMAGES = [
    ("a BTH byte (PSN)", BTH + 11, ["icrc"]),
    ("the last byte (ICRC)", None, ["icrc"]),
    ("the UDP checksum", BTH - 1, ["icrc", "tshark"]),
    ("the UDP port", BTH - 5, ["icrc", "tshark"]),
    ("the opcode: none that exists", BTH, ["icrc", "tshark"]),
    ("the IPv4 Identification", BTH - UDP - IPV4 + 5, ["icrc"]),
]


def fails(checker, path):
    options = ["--ours"] if checker == "icrc" else []
    run = subprocess.run([sys.executable, f"{HERE}/{checker}_check.py", *options, path], capture_output=True, check=False)
    return run.returncode not in (0, 77)


def main():
    with open(sys.argv[1], "rb") as file:
        good = file.read()
    first_length = struct.unpack("<I", good[GLOBAL_HEADER + 8:GLOBAL_HEADER + 12])[0]
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "damaged.pcap")
        for name, offset, checkers in [("nothing", -1, [])] + DAMAGES:
            data = bytearray(good)
            if offset is None:
                offset = GLOBAL_HEADER + RECORD_HEADER + first_length - 1
            if offset >= 0:
                data[offset] ^= 0x9C
            with open(path, "wb") as file:
                file.write(data)
            for checker in ("icrc", "tshark"):
                if offset < 0 and fails(checker, path):
                    print(f"{checker} objects to an undamaged capture")
                    missed += 1
                if checker in checkers and not fails(checker, path):
                    print(f"{checker} did not notice: {name}")
                    missed += 1
    print("self test: " + ("FAILED" if missed else "ok"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
