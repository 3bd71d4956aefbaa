#!/usr/bin/env python3
"""The Wireshark plugin in tshark, over all golden captures and over damaged ones: plugin_test.py UROCE SOURCE_DIR.

Its verdicts on ICRCs must be those of `uroce explain`, which computes them with other code. Exit status 77 without tshark
or without Lua in it.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

UROCE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PLUGIN = SOURCE / "tools" / "wireshark" / "uroce.lua"
GOLDEN = SOURCE / "pcaps" / "rxe"
SKIPPED = 77


def tshark(capture, *fields):
    """A list of values for each frame."""
    wanted = [part for field in fields for part in ("-e", field)]
    ran = subprocess.run(["tshark", "-X", f"lua_script:{PLUGIN}", "-r", str(capture), "-T", "fields", *wanted],
                         capture_output=True, text=True, timeout=100, check=True)
    assert "Lua" not in ran.stderr, ran.stderr
    assert "Lua Error" not in ran.stdout, ran.stdout
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


def main():
    if shutil.which("tshark") is None or "Lua" not in subprocess.run(["tshark", "-v"], capture_output=True, text=True,
                                                                    check=True).stdout:
        print("skipped: no tshark with Lua")
        return SKIPPED
    words()
    dice = random.Random(16)

    def flip(frame):
        frame[dice.randrange(14, len(frame))] ^= 1 << dice.randrange(8)

    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        print(same_verdicts(all_in_one(directory / "golden.pcap")), "ICRCs are wrong in the golden captures")
        tshark(all_in_one(directory / "flipped.pcap", flip), "uroce.icrc", "uroce.syndrome", "_ws.expert.message")
    return 0


sys.exit(main())
