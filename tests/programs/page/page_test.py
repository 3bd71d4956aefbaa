#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the page of `uroce explain --html` as a person would: page_test.py UROCE PCAPS [SCREENSHOT].

Without Chromium only the file itself is looked at. Exit status 0, 1, or 77 when no browser is there.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import browser

UROCE, PCAPS = sys.argv[1], pathlib.Path(sys.argv[2])
SKIPPED = 77


def write_page(page, *args):
    subprocess.run([UROCE, "explain", "--html", str(page), *map(str, args)], check=True, stdout=subprocess.DEVNULL, timeout=60)
    return page


def look_at_file(page):
    """One file that fetches nothing, with data that a browser can read."""
    content = page.read_text()
    addresses = set(re.findall(r"https?://[^\s'\"]+", content))
    assert addresses == {"http://www.w3.org/2000/svg"}, addresses  # The name of a language.
    assert not re.search(r"<(link|img|iframe)|@import|\bsrc=|url\(", content)
    data = json.loads(re.search(r"const DATA = (.*?);</script>", content, re.S)[1])
    assert len(data["packets"]) == 21 and len(data["headers"]) >= 9
    return data


def visible(page, what):
    return page.run(f"[...document.querySelectorAll('.row')].map((r) => r.querySelector('{what}').textContent)")


def use(page):
    assert visible(page, ".number")[:4] == ["a#1", "a#2", "a#3", "a#4"]
    assert page.run("document.querySelectorAll('.lost').length") == 2  # A request and the NAK for it.
    assert "8 of them sent again" in page.run("document.getElementById('summary').textContent")

    # Problems alone; then a search for one.
    page.click("#problems")
    problems = visible(page, ".number")
    assert problems[0] == "a#4" and "a#5" not in problems, problems
    page.click("#problems")
    page.key("/")
    for letter in "nak":
        page.key(letter)
    assert visible(page, ".name") == ["NAK PSN sequence error"], visible(page, ".name")
    assert page.run("document.getElementById('found').textContent") == "1 of 21"
    page.key("Enter")

    # A click shows every field of the headers, with what it means.
    page.click(".row .name")
    fields = page.run("[...document.querySelectorAll('#details tr')].map((r) => [...r.children].map((c) => c.textContent))")
    named = {name: (value, means) for name, value, means in fields}
    assert named["psn"][0] == "0x103" and "sequence number" in named["psn"][1], named
    assert named["syndrome"][0] == "0x60" and "NAK" in named["syndrome"][1], named["syndrome"]
    assert named["ICRC"][0] == "right" and named["source"][0] == "10.77.0.12", named

    # The packet that the NAK complains about is a link, and `b` goes back.
    page.click("#details .why a")
    assert page.run("document.querySelector('.row.pick .number').textContent") == "a#4"
    assert page.run("document.getElementById('search').value") == ""
    page.key("b")
    assert page.run("document.querySelector('.row.pick .number').textContent") == "b#8"
    page.key("j")
    assert page.run("document.querySelector('.row.pick .number').textContent") == "a#9"
    page.key("p")
    assert page.run("document.querySelector('.row.pick .number').textContent") == "b#8"
    page.key("Escape")
    assert not page.run("document.getElementById('details').classList.contains('open')")

    height = page.run("document.getElementById('rows').offsetHeight")
    page.key("t")
    assert page.run("document.getElementById('rows').offsetHeight") > height + 500  # The timeout is to be seen.
    page.key("t")
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.run(color)
    page.click("#look")
    assert page.run(color) != light
    page.click("#look")


def tracks(page):
    """PSN and MSN over time: dots where the packets are, a click picks one, the wheel zooms, and so do + and - in the ladder."""
    page.key("g")
    page.until("tracks.points.length > 0")
    assert page.run("[...document.getElementById('asks').options].map((o) => o.textContent)") == ["1: A asks"]
    dots = page.run("tracks.points.map(([x, y, index]) => [x, y, DATA.packets[index][PLACE]])")
    # 16 requests and 5 answers, which have an MSN, too.
    assert len(dots) == 16 + 2 * 5, dots
    height = {name: y for x, y, name in reversed(dots)}
    # PSNs rise, and fall back where all is sent again (a#9 is the first one as it was sent first, a#1).
    assert height["a#1"] > height["a#4"] > height["a#8"] and height["a#9"] == height["a#1"], height
    painted = "(() => { const c = document.getElementById('chart'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;" \
              " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()"
    assert page.run(painted) > 500
    x, y = page.run("tracks.points.filter(([, , i]) => DATA.packets[i][PLACE] === 'a#9')[0].slice(0, 2)")
    page.click_at("#chart", x, y)
    # Eight requests came at once: the dot is that of one of them, and the pick is to be seen in the ladder.
    place = page.run("document.querySelector('.row.pick .number').textContent")
    assert place == "a#9", place
    page.run("zoomTracks(0.1, 0)")
    assert len(page.run("tracks.points")) < len(dots)
    assert page.run("document.getElementById('zoomed').textContent") == "10.0 times as wide"
    page.click("#whole")
    assert len(page.run("tracks.points")) == len(dots)
    page.key("Escape")
    page.key("g")
    page.run("view.focus()")
    heights = []
    for key in "t+++----":
        page.key(key)
        heights.append(page.run("document.getElementById('rows').offsetHeight"))
    assert heights[0] < heights[1] < heights[2] < heights[3] and heights[7] < heights[0], heights
    page.key("t")


def many(page, packets):
    """A long capture: few elements, and each step of scrolling is drawn in time."""
    packets = min(packets, 100_000)
    page.until("document.querySelectorAll('.row').length > 10")
    opened = page.run("performance.now()")
    assert opened < 20_000, opened
    jump, took = (page.run("""((step) => {
      const view = document.getElementById('view');
      const from = performance.now();
      for (let i = 0; i < 100; ++i) { view.scrollTop = i * step; draw(false); view.getBoundingClientRect(); }
      return (performance.now() - from) / 100; })(%d)""" % step) for step in (2000, 60))
    assert page.run("document.querySelectorAll('.row').length") < 120
    pages = page.run("document.getElementById('page').options.length")
    assert pages == (packets + 9999) // 10000, pages
    print(f"{packets} packets in {pages} pages, open after {opened:.0f} ms, {jump:.1f} ms to draw after a jump, {took:.1f} ms after a step")
    assert took < 100, took


def narrow(page):
    """In a narrow window nothing is outside of it, and most of it shows packets, or a packet's fields."""
    page.until("document.querySelectorAll('.row').length > 5")
    height, wide = page.run("[innerHeight, Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth]")
    assert wide <= 0, wide
    page.run("document.getElementById('story').open = true")
    assert page.run("(() => { const s = document.querySelector('#summary'); return s.scrollWidth - s.clientWidth; })()") <= 0
    page.run("document.getElementById('story').open = false")
    tall = "document.getElementById('%s').getBoundingClientRect().height"
    assert page.run(tall % "view") > 0.4 * height, page.run(tall % "view")
    page.key("j")
    page.key("Enter")
    assert page.run("getComputedStyle(document.getElementById('details')).display") == "block", "no header fields"
    assert page.run("(() => { const r = document.getElementById('details').getBoundingClientRect();"
                    " return r.left === 0 && r.right === innerWidth && r.top > 0.5 * innerHeight && r.bottom <= innerHeight; })()")


def long_capture(directory):
    """The same packets again and again, an hour apart: more than a page takes."""
    whole = (PCAPS / "rxe" / "rc_write_157pkt_mtu256.pcap").read_bytes()
    header, records, count = whole[:24], [], 0
    at = 24
    while at < len(whole):
        seconds, rest, size = (int.from_bytes(whole[at + i:at + i + 4], "little") for i in (0, 4, 8))
        records.append((seconds, rest, whole[at + 8:at + 16 + size]))
        at += 16 + size
    out = bytearray(header)
    for turn in range(640):
        for seconds, rest, body in records:
            out += (seconds + 3600 * turn).to_bytes(4, "little") + rest.to_bytes(4, "little") + body
            count += 1
    path = directory / "long.pcap"
    path.write_bytes(out)
    return path, count


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        both = write_page(directory / "both.html", PCAPS / "rxe" / "loss_nak.atA.pcap", PCAPS / "rxe" / "loss_nak.atB.pcap")
        look_at_file(both)
        if browser.program() is None:
            print("no Chromium: the page was not used")
            return SKIPPED
        page = browser.Browser(both.as_uri())
        try:
            if len(sys.argv) > 3:
                page.screenshot(pathlib.Path(sys.argv[3]))
            use(page)
            tracks(page)
            assert all(url.startswith("file:") for url in page.requests), page.requests
        finally:
            page.close()
        # However deep the captures lie, and whatever their name.
        deep = directory / "-".join(["captures"] * 12) / "_".join(["loss"] * 12)
        deep.parent.mkdir()
        deep.symlink_to((PCAPS / "rxe" / "loss_nak.atA.pcap").resolve())
        page = browser.Browser(write_page(directory / "narrow.html", deep).as_uri(), width=380, height=700)
        try:
            narrow(page)
        finally:
            page.close()
        capture, packets = long_capture(directory)
        page = browser.Browser(write_page(directory / "long.html", capture).as_uri())
        try:
            many(page, packets)
        finally:
            page.close()
    return 0


sys.exit(main())
