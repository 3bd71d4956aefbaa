#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `uroce explain` as a user does: command_test.py UROCE PCAPS [without_memory]."""
import contextlib
import gzip
import json
import lzma
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

UROCE, PCAPS = sys.argv[1], pathlib.Path(sys.argv[2])
LOSS = PCAPS / "rxe" / "loss_send_middle.atA.pcap"


def explain(*args, status=0, **more):
    ran = subprocess.run([UROCE, "explain", *map(str, args)], capture_output=True, text=True, timeout=30, check=False,
                         **more)
    assert ran.returncode == status, (args, ran)
    return ran


def expect(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in:\n{text}"


def texts():
    summary = explain(LOSS).stdout
    expect(summary, "1 SEND of 8192 bytes, completed", "13 request packets, 5 of them sent again (38.5 %): 5 by NAK",
           "PSN 0x103: #4 did not reach it", "sent again: 5 packets from PSN 0x103 on, because of the NAK #9")
    transcript = explain("--packets", LOSS).stdout
    expect(transcript, "#1 ", "bytes 7168..8191 of 8192", "SENT AGAIN (2nd time) because of the NAK #9")
    problems = explain("--only", "problems", LOSS).stdout
    assert "first transmission" not in problems, problems
    both = explain(LOSS, PCAPS / "rxe" / "loss_send_middle.atB.pcap").stdout
    expect(both, "a#4", "was lost on the way: the other end did not see it")


def on_terminal(*args):
    """What a terminal gets."""
    ours, its = os.openpty()
    with subprocess.Popen([UROCE, "explain", *map(str, args)], stdin=subprocess.DEVNULL, stdout=its, stderr=its) as process:
        os.close(its)
        text = bytearray()
        try:
            while more := os.read(ours, 1 << 16):
                text += more
        except OSError:
            pass  # Linux's way to say that the last one has closed the terminal.
        os.close(ours)
    assert process.returncode == 0, text
    return text.decode()


@contextlib.contextmanager
def long_capture():
    data = (PCAPS / "send_0.pcap").read_bytes()
    length = int.from_bytes(data[32:36], "little")
    frame, psn = data[40:40 + length - 4], 14 + 20 + 8 + 9  # Without the ICRC, which would be wrong.
    with tempfile.NamedTemporaryFile(suffix=".pcap") as long:
        long.write(data[:24])
        for i in range(70_000):
            long.write(struct.pack("<4I", 1, i, len(frame), length) + frame[:psn] + i.to_bytes(3, "big") + frame[psn + 3:])
        long.flush()
        yield long


def progress():
    """A long capture: a terminal hears how far the work is, but not between the lines of a transcript."""
    with long_capture() as long:
        expect(on_terminal(long.name), " MB, 65536 packets", "70000 request packets")
        transcript = on_terminal("--packets", long.name)
        expect(transcript, "#70000 ")
        assert " MB, 65536 packets" not in transcript


def filters():
    capture = PCAPS / "rxe" / "cm_rping_v4.pcap"
    expect(explain("--qp", "127", capture).stdout, "QP 0x7f")
    none = explain("--qp", "0x80", capture)
    assert "connection 1" not in none.stdout
    expect(none.stderr, "no connection in it has that --qp")
    expect(explain("--peer", "10.77.0.12", capture).stdout, "connection 1")
    assert "connection 1" not in explain("--peer", "10.77.0.13", capture).stdout


def documents():
    document = json.loads(explain("--json", "--packets", LOSS).stdout)
    assert document["schema"] == "uroce-explain-1"
    assert len(document["packets"]) == 15
    tenth = document["packets"][9]
    assert tenth["reason"] == "nak" and tenth["cause"] == {"file": 0, "frame": 9} and tenth["sure"], tenth
    forward = document["connections"][0]["a_to_b"]
    assert forward["resent"] == 5 and forward["rounds"][0]["packets"] == 5, forward
    assert json.loads(explain("--json", LOSS).stdout)["packets"] == []


def icrcs(directory):
    """A sender whose ICRCs are all wrong: one sentence, in each form."""
    refused = PCAPS / "rxe" / "rc_rnr_multi_then_ok.pcap"
    data, at, capture = bytearray(refused.read_bytes()), 24, directory / "icrcs.pcap"
    while at < len(data):
        size, frame = int.from_bytes(data[at + 8:at + 12], "little"), at + 16
        at = frame + size
        if data[frame + 42] == 0x11:  # ACK, NAK.
            data[at - 1] ^= 1
    capture.write_bytes(data)
    sentence = "the ICRC of all its 8 packets is wrong, so that 8 belong to no connection"
    expect(explain("--html", directory / "icrcs.html", capture).stdout, sentence, "the ICRC of B's packets is never right")
    expect((directory / "icrcs.html").read_text(), sentence)
    (never,) = json.loads(explain("--json", capture).stdout)["totals"]["icrc_never_right"]
    assert never["packets"] == 8 and never["text"].startswith(f"{never['address']}: {sentence}"), never
    assert json.loads(explain("--json", refused).stdout)["totals"]["icrc_never_right"] == []


def traces(directory):
    """--perfetto writes all packets, or those with problems, and replaces no capture."""
    assert "https://ui.perfetto.dev" in explain("--help").stdout
    trace = directory / "trace.json"

    def titles(phase):
        events = json.loads(trace.read_text())["traceEvents"]
        return [event["name"] for event in events if event["ph"] == phase]

    expect(explain("--perfetto", trace, LOSS).stdout, "5 by NAK")
    assert len(titles("i")) == 15 and titles("X") == ["goes back for a NAK", "SEND 1"], titles("X")
    explain("--perfetto", trace, "--only", "problems", LOSS)
    assert len(titles("i")) == 6 and "SEND 1" in titles("X"), titles("i")
    explain("--perfetto", trace, "--qp", "0x99", LOSS)
    assert titles("i") == titles("X") == [], trace.read_text()
    expect(explain("--perfetto", directory, LOSS, status=2).stderr, f"can't write {directory}: Is a directory")
    if os.path.exists("/dev/full"):
        expect(explain("--perfetto", "/dev/full", LOSS, status=2).stderr, "can't write /dev/full: No space left")
    copy = directory / "copy.pcap"
    copy.write_bytes(LOSS.read_bytes())
    for option in "--perfetto", "--html":
        expect(explain(option, copy, copy, status=2).stderr, f"{copy} is one of the captures to read; write to another file")
    assert copy.read_bytes() == LOSS.read_bytes()
    same = directory / "." / trace.name
    expect(explain("--perfetto", trace, "--html", same, LOSS, status=2).stderr, "can't have both outputs")
    expect(explain(LOSS, copy, LOSS, status=2).stderr, f"{LOSS} is given twice")


def mistakes(directory):
    expect(explain("/no/such/file", status=2).stderr, "can't open the capture /no/such/file: No such file")
    expect(explain(directory, status=2).stderr, "is a directory without recordings")
    expect(explain(__file__, status=2).stderr, "neither pcap nor pcapng")
    packed = directory / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(LOSS.read_bytes()))
    expect(explain(packed, status=2).stderr, f"{packed}: it is compressed by gzip: gunzip it first")
    packed.write_bytes(bytes.fromhex("28b52ffd04"))
    expect(explain(packed, status=2).stderr, f"{packed}: it is compressed by zstd: unzstd it first")
    packed.write_bytes(lzma.compress(LOSS.read_bytes()))
    expect(explain(packed, status=2).stderr, f"{packed}: it is compressed by xz: unxz it first")
    expect(explain("--qp", "x", LOSS, status=2).stderr, "'x' is no QP number")
    expect(explain("--peer", "x", LOSS, status=2).stderr, "'x' is no IPv4 or IPv6 address")
    expect(explain("--only", "x", LOSS, status=2).stderr, "--only takes problems")
    explain(status=2)
    cut = directory / "cut.pcap"
    cut.write_bytes(LOSS.read_bytes()[:-1])
    expect(explain(cut, status=1).stdout, "THE CAPTURE IS NOT WHOLE: cut off in the packet at byte")
    empty = directory / "empty.pcap"
    empty.write_bytes(LOSS.read_bytes()[:24])
    expect(explain(empty, status=1).stderr, "there is no packet of RoCE in it")


def recordings(directory):
    """A file that is no recording is skipped with a sentence, whatever its members are."""
    good = {"schema": "uroce-record-1", "program": "rdma_client", "pid": 7, "nic": 0, "address": "127.0.0.2", "why": "x",
            "causes": [{"time_ns": 1, "qpn": 17, "status": "RETRY_EXC_ERR", "cause": "RETRY_EXC_ERR on QP 0x11"}]}
    bad = directory / "uroce-bad-1-0-1.json"
    texts_of_bad = ["no JSON", "[]", "7", '{"schema": 5}', *(
        json.dumps(good | change)
        for change in ({"schema": "other"}, {"program": 1}, {"pid": "7"}, {"nic": []}, {"address": None}, {"why": {}},
                       {"causes": {}}, {"causes": [5]}, {"causes": [{"time_ns": "x"}]}, {"causes": [{"cause": 5}]}))]
    bad.symlink_to("nowhere")
    expect(explain(directory, status=2).stderr, "without recordings that can be read", f"{bad}: No such file or directory")
    bad.unlink()
    if os.geteuid() != 0:  # Root may read everything.
        bad.touch(mode=0)
        expect(explain(directory, status=2).stderr, "without recordings that can be read", f"{bad}: Permission denied")
        bad.unlink()
    for text in texts_of_bad:
        bad.write_text(text)
        expect(explain(directory, status=2).stderr, "without recordings that can be read", f"{bad}: damaged")
    (directory / "uroce-good-7-0-1.json").write_text(json.dumps(good))
    for text in texts_of_bad:
        bad.write_text(text)
        ran = explain(directory)
        expect(ran.stderr, f"skipped: {bad}: damaged, or no recording")
        expect(ran.stdout, "RETRY_EXC_ERR on QP 0x11\n  rdma_client[7], uroce0 127.0.0.2; uroce-good-7-0-1.json")


def containers(directory):
    """Each process of a container may be number 1. What one process recorded twice is told once."""
    for n, (address, why) in enumerate([("127.0.0.2", "first"), ("127.0.0.2", "again"), ("127.0.0.3", "other end")]):
        path = directory / f"uroce-perf-1-0-{n + 1}.json"
        path.write_text(json.dumps({"schema": "uroce-record-1", "program": "perf", "pid": 1, "nic": 0, "address": address,
                                    "why": why}))
        os.utime(path, (1e9 + n, 1e9 + n))
    told = explain(directory).stdout
    expect(told, "Recorded: again", "Recorded: other end")
    assert "first" not in told, told


def limited(directory):
    """A file that reached `ulimit -f` is told as a full disk is."""
    for kind in "html", "perfetto":
        out = directory / kind
        ran = subprocess.run(["prlimit", "--fsize=1000", UROCE, "explain", f"--{kind}", out, LOSS], capture_output=True,
                             text=True, timeout=30, check=False)
        assert ran.returncode == 2, ran
        expect(ran.stderr, f"can't write {out}: File too large")


def left_rings(directory):
    """What a crash has left is named, with why it becomes no recording; also beside recordings."""
    ring = directory / "uroce-crashed-1-0.ring"
    ring.write_text("what another build has written")
    why = f"{ring}: damaged, or of another version of uroce"
    expect(explain(directory, status=2).stderr, f"{directory} is a directory without recordings that can be read: {why}")
    ring.chmod(0)
    if os.geteuid() != 0:  # Root may read everything.
        why = f"{ring}: Permission denied"
        expect(explain(directory, status=2).stderr, f"without recordings that can be read: {why}")
    (directory / "uroce-good-7-0-1.json").write_text('{"schema": "uroce-record-1", "why": "asked"}')
    ran = explain(directory)
    expect(ran.stderr, f"skipped: {why}")
    expect(ran.stdout, "Recorded: asked")


def irregular(directory):
    """Nothing in a directory makes us wait or fail: neither FIFOs nor links in a circle."""
    good = directory / "uroce-good-7-0-1.json"
    good.write_text('{"schema": "uroce-record-1", "why": "asked"}')
    fifo, capture = directory / "uroce-fifo-1-0-1.json", good.with_suffix(".pcapng")
    os.mkfifo(fifo)
    for make, why in ((os.mkfifo, "it is no regular file"),
                      (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
                      (lambda path: path.symlink_to("nowhere"), "No such file or directory")):
        make(capture)
        ran = explain(directory)
        expect(ran.stderr, f"skipped: {fifo}: it is no regular file", f"skipped: {capture}: {why}")
        expect(ran.stdout, "Recorded: asked")
        capture.unlink()
    good.unlink()
    expect(explain(directory, status=2).stderr, f"without recordings that can be read: {fifo}: it is no regular file")


def without_memory():
    """A sentence, and no abort."""
    limit = 60_000_000
    with long_capture() as long, tempfile.TemporaryDirectory() as name:
        ran = subprocess.run(["prlimit", f"--as={limit}", UROCE, "explain", "--html", f"{name}/page.html", long.name],
                             capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1, ran
    expect(ran.stderr, "uroce explain: out of memory")


def hostile(directory):
    """What captures and recordings say goes to the terminal as characters, never as orders."""
    evil = "\x1b[2J\n\x9b31m\x7f ünd"
    document = {"schema": "uroce-record-1", "program": evil, "causes": [{"time_ns": 1, "cause": evil}]}
    (directory / "uroce-evil-1-0-1.json").write_text(json.dumps(document))
    capture = directory / "bad\x1b[31m.pcapng"
    capture.write_bytes(commented(LOSS.read_bytes(), evil.encode() + b"\xff\xc3 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xc3"))
    plain = r"\x1b[2J\x0a\xc2\x9b31m\x7f ünd"
    text = explain("--packets", directory, capture).stdout
    expect(text, plain + "\n", plain + r"\xff\xc3 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xc3", plain + "[", r"bad\x1b[31m")
    assert not any(ord(c) < 0x20 and c != "\n" or 0x7f <= ord(c) < 0xa0 for c in text), text
    expect(explain(directory / "no\x1b[31m", status=2).stderr, r"no\x1b[31m")


def commented(pcap, comment):
    """A pcap of little endian as pcapng, each packet with a comment."""
    def block(kind, body):
        size = struct.pack("<I", 12 + len(body))
        return struct.pack("<I", kind) + size + body + size

    def padded(data):
        return data + bytes(-len(data) % 4)

    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0))
    at = 24
    while at < len(pcap):
        seconds, part, size, whole = struct.unpack_from("<4I", pcap, at)
        time = seconds * 1_000_000 + part // 1000
        option = struct.pack("<HH", 1, len(comment)) + padded(comment) + bytes(4)
        out += block(6, struct.pack("<5I", 0, time >> 32, time & 0xFFFFFFFF, size, whole)
                     + padded(pcap[at + 16:at + 16 + size]) + option)
        at += 16 + size
    return out


def streams(directory):
    with LOSS.open("rb") as capture:
        expect(explain("-", stdin=capture).stdout, "5 by NAK")
    # A file that grows: what is there is told at once, then what comes; ^C brings the summary.
    growing = directory / "growing.pcap"
    whole = LOSS.read_bytes()
    growing.write_bytes(whole[:3000])
    with subprocess.Popen([UROCE, "explain", "--follow", str(growing)], stdout=subprocess.PIPE, text=True) as process:
        seen = []
        while not any("#2 " in line for line in seen):
            seen.append(process.stdout.readline())
        with growing.open("ab") as capture:
            capture.write(whole[3000:])
        while not any("#15 " in line for line in seen):
            seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        expect(process.stdout.read(), "5 by NAK")
        assert process.wait(10) == 0
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([UROCE, "explain", "--follow", str(fifo)], stdout=subprocess.PIPE, text=True) as process:
        fifo.write_bytes(whole)
        expect(process.communicate(timeout=20)[0], "#15 ", "5 by NAK")


def main():
    if sys.argv[3:] == ["without_memory"]:
        return without_memory()
    texts()
    progress()
    filters()
    documents()
    for part in icrcs, traces, mistakes, recordings, containers, limited, left_rings, irregular, hostile, streams:
        with tempfile.TemporaryDirectory() as name:
            part(pathlib.Path(name))
    return None


main()
