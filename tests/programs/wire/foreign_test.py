#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures that others have made: foreign_test.py UROCE SOURCE_DIR [DIRECTORY, or UROCE_FOREIGN_CAPTURES].

Each capture of the directory, and always one of the packets of published.py, is told in words, as JSON and as a page,
without error, with packets that are RoCE; the plugin judges their ICRCs in tshark as `uroce explain` does. Whole captures of
others are not in this repository (docs/explain.md names some).
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import plugin
import published

UROCE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PLUGIN = SOURCE / "tools" / "wireshark" / "uroce.lua"


def run(*args):
    ran = subprocess.run([*map(str, args)], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, (args, ran.returncode, ran.stderr)
    return ran


def judge(capture, directory):
    page = directory / "page.html"
    text = run(UROCE, "explain", "--packets", "--html", page, capture).stdout
    assert "connection 1" in text and "THE CAPTURE IS NOT WHOLE" not in text and "broken" not in text, text
    assert page.stat().st_size > 20_000
    told = json.loads(run(UROCE, "explain", "--json", "--packets", capture).stdout)
    verdicts = {packet["place"]["frame"]: packet["icrc"] for packet in told["packets"]}
    assert verdicts and "wrong" not in verdicts.values(), verdicts
    if shutil.which("tshark"):
        ran = plugin.tshark(PLUGIN, "-r", capture, "-T", "fields", "-e", "frame.number", "-e", "uroce.icrc")
        lines = [line.split("\t") for line in ran.stdout.splitlines()]
        seen = {int(number): verdict.replace(" ", "_") for number, verdict in lines if verdict}
        assert seen == verdicts, (seen, verdicts)
    print(f"{capture.name}: {len(verdicts)} packets of RoCE")
    return [packet["what"] for packet in told["packets"]]


def main():
    directory = sys.argv[3] if len(sys.argv) > 3 else os.environ.get("UROCE_FOREIGN_CAPTURES")
    with tempfile.TemporaryDirectory() as name:
        capture = pathlib.Path(name) / "published.pcap"
        published.write_capture(capture)
        what = judge(capture, pathlib.Path(name))
        assert what == [packet.what for packet in published.PUBLISHED], what
        if not directory:
            print("UROCE_FOREIGN_CAPTURES names no directory: no whole captures")
            return
        captures = sorted(path for path in pathlib.Path(directory).iterdir() if path.suffix in (".pcap", ".pcapng", ".cap"))
        assert captures, f"no captures in {directory}"
        for capture in captures:
            judge(capture, pathlib.Path(name))


main()
