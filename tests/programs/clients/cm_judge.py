"""Counts the messages of connection management in a capture, and judges how the connections of a program went."""

import collections
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "wire"))
import roce  # noqa: E402

NAMES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ",
         0x18: "SIDR_REP"}
UDP_PAYLOAD = 12 + 8 + 256 + 4  # BTH, DETH, MAD, ICRC
REQUESTS = {"REQ", "SIDR_REQ"}


def messages(path):
    """(name, source address, the MAD) of each message, in order."""
    for _, frame in roce.read_pcap(path):
        packet = roce.decode(frame)
        if packet["bth"]["dqpn"] != 1:
            continue
        ip, bytes_, header = roce.parse_ip(frame)
        payload = bytes_[header + 8:]
        assert len(payload) == UDP_PAYLOAD, f"a message of {len(payload)} bytes"
        mad = payload[20:-4]
        assert mad[:4] == bytes([1, 7, 2, 3]), f"a MAD header of {mad[:4].hex()}"
        yield NAMES.get(struct.unpack("!H", mad[16:18])[0], "?"), ip["source"], mad


def judge(path, connections, datagrams=0, ends=True):
    """Each of `connections` is asked for, answered and confirmed; it `ends` with a message. Each of `datagrams`, QPs found
    by SIDR, is asked for and answered. Nothing is sent twice, except a request, on a busy machine: nobody may be there
    when the first one comes."""
    seen = collections.Counter()
    copies = collections.Counter()
    for name, source, mad in messages(path):
        copies[(name, source, bytes(mad))] += 1
        if name in REQUESTS and copies[(name, source, bytes(mad))] > 1:
            continue
        seen["nobody there" if name == "SIDR_REP" and mad[28] == 1 else name] += 1
    repeated = [mad[:40].hex() for (name, _, mad), count in copies.items() if count > 1 and name not in REQUESTS]
    assert not repeated, f"sent more than once: {repeated}"
    refused = {"REQ": seen["REJ"], "SIDR_REQ": seen["nobody there"]}
    wanted = {"REQ": connections, "REP": connections, "RTU": connections, "SIDR_REQ": datagrams, "SIDR_REP": datagrams}
    for name, count in wanted.items():
        assert seen[name] - refused.get(name, 0) == count, f"{dict(seen)}: {name}"
    if ends:
        assert seen["DREQ"] >= connections, f"{dict(seen)}: nobody disconnects"
    assert "?" not in seen and "MRA" not in seen, dict(seen)
    return seen
