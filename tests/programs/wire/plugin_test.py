#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Wireshark plugin in tshark, over all golden captures and over damaged ones: plugin_test.py UROCE SOURCE_DIR.

Its verdicts on ICRCs must be those of `uroce explain`, which computes them with other code. Exit status 77 without tshark
or without Lua in it.
"""
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import plugin
import roce

UROCE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PLUGIN = SOURCE / "tools" / "wireshark" / "uroce.lua"
GOLDEN = SOURCE / "pcaps" / "rxe"
SKIPPED = 77


def tshark(capture, *fields, options=()):
    """A list of values for each frame."""
    wanted = [part for field in fields for part in ("-e", field)]
    ran = plugin.tshark(PLUGIN, *options, "-r", capture, "-T", "fields", *wanted)
    return [line.split("\t") for line in ran.stdout.split("\n")[:-1]]


def records(capture):
    data = capture.read_bytes()
    at = 24
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "little")
        yield data[at:at + 16], bytearray(data[at + 16:at + 16 + size])
        at += 16 + size


def all_in_one(path, damage=None):
    captures = sorted(GOLDEN.glob("*.pcap"))
    with path.open("wb") as out:
        out.write(captures[0].read_bytes()[:24])
        for capture in captures:
            for header, frame in records(capture):
                if damage:
                    damage(frame)
                out.write(header + frame)
    return path


def same_verdicts(capture):
    """Both count the frames alike, and agree on each ICRC. How many were wrong."""
    told = json.loads(subprocess.run([UROCE, "explain", "--json", "--packets", str(capture)], check=True, capture_output=True,
                                     timeout=60).stdout)
    verdicts = {packet["place"]["frame"]: packet["icrc"] for packet in told["packets"]}
    seen = {int(number): icrc.lower() for number, icrc in tshark(capture, "frame.number", "uroce.icrc")}
    assert len(verdicts) > 2000
    different = {n: (icrc, seen[n]) for n, icrc in verdicts.items() if seen[n] != icrc}
    assert not different, different
    return sum(icrc == "wrong" for icrc in verdicts.values())


def words():
    loss = tshark(GOLDEN / "loss_send_middle.atA.pcap", "uroce.again", "uroce.syndrome", "uroce.answers")
    assert [again for again, _, _ in loss] == [""] * 9 + ["4", "5", "6", "7", "8"] + [""], loss
    assert loss[8][1:] == ["NAK: PSN sequence error, MSN 0", "4"], loss[8]
    rnr = tshark(GOLDEN / "rc_rnr_then_ok.pcap", "uroce.syndrome")
    assert rnr[1] == ["RNR NAK: wait 81.92 ms at least, MSN 0"], rnr
    duplicates = tshark(GOLDEN / "loss_ack_send.atA.pcap", "uroce.acked_again", "_ws.col.Info")
    assert [again for again, _ in duplicates][-3:] == ["", "7", "7"] and "[acknowledged again]" in duplicates[-1][1], duplicates
    wrong = tshark(GOLDEN / "corrupt_icrc_send.atB.pcap", "uroce.icrc", "_ws.expert.message")
    assert wrong[1] == ["WRONG", "ICRC wrong: the receiver drops it"], wrong


def links():
    """Requests and answers name each other, also where Wireshark reads a capture twice, as its window does."""
    fields = ["uroce.answers", "uroce.answered", "uroce.begins", "uroce.gap", "uroce.again"]
    loss = GOLDEN / "loss_write_middle.atB.pcap"
    once, twice = tshark(loss, *fields), tshark(loss, *fields, options=["-2"])
    assert twice[13][0] == "13" and twice[12][1] == "14" and once[12][1] == "", twice
    assert [row[2:4] for row in once[:5]] == [["", ""], ["1", ""], ["1", ""], ["", "1"], ["", ""]], once
    assert [row[4] for row in once[9:13]] == ["4", "5", "6", "7"], once
    # A READ takes as many PSNs as it has responses: nothing is missing behind it.
    for name in ("rc_list_mixed", "rc_read_two", "cm_rping_v4", "rc_atomic_write"):
        assert not [gap for (gap,) in tshark(GOLDEN / f"{name}.pcap", "uroce.gap") if gap], name


class Talk:
    """A capture of what two hosts say to each other, in which each QP begins with a SEND, PSN 0x100, and its ACK."""

    def __init__(self):
        _, frame = next(records(GOLDEN / "rc_atomic_write.pcap"))
        self.ip, self.frames = bytes(frame[:14 + 28]), []
        self.send(0x100)
        self.ack(0x100)

    def packet(self, opcode, psn, body=b"", back=False, qp=0x22, version=0, wrong=False):
        packet = bytearray(self.ip[14:])
        if back:
            packet[12:20] = packet[16:20] + packet[12:16]
        size = 12 + len(body)
        packet[2:4], packet[24:26] = struct.pack("!H", 28 + size + 4), struct.pack("!H", 8 + size + 4)
        packet += struct.pack("!BBHII", opcode, version, 0xFFFF, 0x11 if back else qp, 0x80000000 | psn) + body
        icrc = bytearray(roce.icrc(packet, 20))
        icrc[0] ^= wrong
        self.frames.append(self.ip[:14] + packet + icrc)

    def send(self, psn, **how):
        self.packet(0x04, psn, b"data", **how)

    def ack(self, psn, back=True, **how):
        self.packet(0x11, psn, struct.pack("!I", 0x1F000001), back=back, **how)

    def told(self, directory, *fields):
        capture = directory / "talk.pcap"
        data = (GOLDEN / "rc_atomic_write.pcap").read_bytes()[:24]
        for second, frame in enumerate(self.frames):
            data += struct.pack("<4I", second, 0, len(frame), len(frame)) + frame
        capture.write_bytes(data)
        return tshark(capture, *fields, options=["-2"])


def reads(directory):
    """Each response names its READ, which names the one that completes it."""
    talk = Talk()
    talk.packet(0x0C, 0x101, struct.pack("!QII", 1, 1, 600))
    talk.packet(0x0C, 0x104, struct.pack("!QII", 1, 1, 600))
    aeth = struct.pack("!I", 0x1F000002)
    for psn in 0x101, 0x104:
        talk.packet(0x0D, psn, aeth + bytes(256), back=True)
        talk.packet(0x0E, psn + 1, bytes(256), back=True)
        talk.packet(0x0F, psn + 2, aeth + bytes(88), back=True)
    told = talk.told(directory, "uroce.icrc", "uroce.answers", "uroce.answered")
    assert all(icrc == "right" for icrc, _, _ in told), told
    assert [row[1] for row in told[4:]] == ["3"] * 3 + ["4"] * 3, told
    assert [row[2] for row in told[2:]] == ["7", "10"] + [""] * 6, told


def no_answers(directory):
    """What the requester drops answers nothing, and acknowledges nothing; nor does an ACK of what nobody has sent."""
    talk = Talk()
    talk.send(0x101)
    talk.ack(0x101, wrong=True)
    talk.ack(0x101, version=1)
    talk.ack(0x106)
    talk.ack(0x800105)
    talk.ack(0x101)
    talk.send(0x102)
    talk.ack(0x102)
    talk.ack(0x102)
    told = talk.told(directory, "uroce.answers", "uroce.answered", "uroce.acked_again")
    assert [row[0] for row in told[2:]] == [""] * 5 + ["3", "", "9", "9"], told
    assert told[2][1] == "8" and [row[2] for row in told] == [""] * 10 + ["10"], told


def anew(directory):
    """PSNs far away are another connection of the same QP, whose answers come to other requests; single ones are missing."""
    talk = Talk()
    talk.send(0x102)
    talk.send(0x700000)
    talk.ack(0x700000)
    talk.send(0x300)
    talk.ack(0x300)
    talk.send(0x302)
    told = talk.told(directory, "uroce.gap", "uroce.answers", "uroce.acked_again")
    assert [row[0] for row in told] == ["", "", "1", "", "", "", "", "1"], told
    assert [row[1] for row in told] == ["", "1", "", "", "4", "", "6", ""], told
    assert not any(row[2] for row in told), told


def several_qps(directory):
    """Answers go with the requests of their own QP."""
    talk = Talk()
    talk.send(0x101)
    talk.send(0x900000, qp=0x33)
    talk.ack(0x101)
    talk.ack(0x100)
    told = talk.told(directory, "uroce.answers", "uroce.acked_again")
    assert told[4:] == [["3", ""], ["1", "5"]], told


def flush_of(frame, placement):
    """A FLUSH of the bytes that an ATOMIC WRITE has written (IBTA Annex A19)."""
    packet, udp = bytearray(frame[14:]), 20
    bth, reth = packet[28:40], packet[40:56]
    body = bytes([0x1C]) + bth[1:] + struct.pack("!I", placement) + reth
    packet[2:4], packet[udp + 4:udp + 6] = struct.pack("!H", 32 + len(body)), struct.pack("!H", 12 + len(body))
    packet = packet[:28] + body
    return frame[:14] + packet + roce.icrc(packet, udp)


def operations(directory):
    """FLUSH, ATOMIC WRITE and congestion; and each rule of the colours fits something and is read without complaint."""
    (written, answer) = [bytes(frame) for _, frame in records(GOLDEN / "rc_atomic_write.pcap")]
    marked = bytearray(written)
    marked[15] |= 3  # ECN: the ICRC does not cover it.
    mirrored = b"\0" * 12 + bytes.fromhex("0800 4500000000000000402f0000 0a000001 0a000002 000088be") + written
    frames = [written, answer, flush_of(written, 0x01), flush_of(written, 0x13), flush_of(written, 0x04), bytes(marked), mirrored]
    capture = directory / "operations.pcap"
    header = (GOLDEN / "rc_atomic_write.pcap").read_bytes()[:24]
    capture.write_bytes(header + b"".join(struct.pack("<4I", i, 0, len(f), len(f)) + f for i, f in enumerate(frames, 1)))
    told = tshark(capture, "uroce.icrc", "uroce.operation", "uroce.flush.selectivity", "uroce.flush.placement", "uroce.length",
                  "uroce.written", "_ws.expert.message")
    assert all(row[0] == "right" for row in told), told
    assert [row[1] for row in told] == ["ATOMIC WRITE", "", "FLUSH", "FLUSH", "FLUSH", "ATOMIC WRITE", "ATOMIC WRITE"], told
    assert [row[2:5] for row in told[2:5]] == [["0", "1", "8"], ["1", "3", "8"], ["0", "4", "8"]], told
    assert told[0][4:6] == ["8", "8877665544332211"], told
    assert "Reserved" in told[4][6] and "Reserved" not in told[3][6] and "Congestion" in told[5][6], told

    capture = directory / "colours.pcap"
    names = ("corrupt_icrc_send.atB", "rc_err_write_bad_rkey", "rc_rnr_then_ok", "loss_send_middle.atB", "loss_ack_send.atA")
    every = [time + bytes(frame) for name in names for time, frame in records(GOLDEN / f"{name}.pcap")]
    every[0] = every[0][:16 + 15] + b"\3" + every[0][16 + 16:]  # Marked.
    capture.write_bytes(header + b"".join(every) + b"".join(struct.pack("<4I", 1, 0, len(f), len(f)) + f for f in frames))
    rules = (PLUGIN.parent / "colorfilters").read_text()
    profile = directory / "wireshark"
    profile.mkdir()
    (profile / "colorfilters").write_text(rules)
    ran = plugin.tshark(PLUGIN, "--color", "-r", capture, "-T", "fields", "-e", "frame.coloring_rule.name",
                        environment={"XDG_CONFIG_HOME": str(directory)})
    assert "filter" not in ran.stderr, ran.stderr
    named = set(re.findall("^@([^@]*)@", rules, re.M))
    assert len(named) == 8 and named == set(ran.stdout.splitlines()) - {""}, (named, ran.stdout)


def main():
    if shutil.which("tshark") is None or "Lua" not in subprocess.run(["tshark", "-v"], capture_output=True, text=True,
                                                                    check=True).stdout:
        print("skipped: no tshark with Lua")
        return SKIPPED
    words()
    links()
    with tempfile.TemporaryDirectory() as name:
        for part in operations, reads, no_answers, anew, several_qps:
            part(pathlib.Path(name))
    dice = random.Random(16)

    def flip(frame):
        frame[dice.randrange(14, len(frame))] ^= 1 << dice.randrange(8)

    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        print(same_verdicts(all_in_one(directory / "golden.pcap")), "ICRCs are wrong in the golden captures")
        tshark(all_in_one(directory / "flipped.pcap", flip), "uroce.icrc", "uroce.syndrome", "_ws.expert.message")
    return 0


sys.exit(main())
