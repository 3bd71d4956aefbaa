#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/explain.md again: pictures.py UROCE PCAPS DOCS."""
import pathlib
import subprocess
import sys
import tempfile

import browser

UROCE, PCAPS, DOCS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
# The picture, its captures, the packet that is chosen (from 0), the height, and whether the packet's fields are shown. One without packet shows the tracks.
PICTURES = [
    ("explain-ladder.png", ["loss_nak.atA.pcap", "loss_nak.atB.pcap"], None, 830, False),
    ("story-lost-ack.png", ["loss_ack_send.atA.pcap", "loss_ack_send.atB.pcap"], 4, 400, False),
    ("story-rnr-storm.png", ["rc_rnr_multi_then_ok.pcap"], 6, 660, False),
    ("story-wrong-rkey.png", ["rc_err_write_bad_rkey.pcap"], 0, 480, True),
]


def main():
    with tempfile.TemporaryDirectory() as name:
        for picture, captures, row, height, fields in PICTURES:
            html = pathlib.Path(name) / "ladder.html"
            subprocess.run([UROCE, "explain", "--html", html, *(PCAPS / "rxe" / capture for capture in captures)],
                           stdout=subprocess.DEVNULL, check=True)
            page = browser.Browser(html.as_uri(), width=1450, height=height)
            try:
                page.run("document.getElementById('story').open = false")
                if row is None:
                    page.key("g")
                    page.until("tracks.points.length > 0")
                for _ in range(0 if row is None else row + 1):
                    page.key("ArrowDown")
                if fields:
                    page.key("Enter")
                    page.run("document.getElementById('details').scrollTop = 1e6")
                page.screenshot(DOCS / picture)
            finally:
                page.close()


main()
