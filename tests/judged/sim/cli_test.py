#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests uroce-sim as a program: exit codes, replay, captures. cli_test.py UROCE_SIM"""
import pathlib
import re
import subprocess
import sys
import tempfile

SIM = sys.argv.pop()


def run(*arguments, status, folder):
    done = subprocess.run([SIM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{arguments}: exit {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
    return done.stdout


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = run("--seeds", "3..12", status=0, folder=folder)
        assert re.search(r"10 seeds from 3 on, 0 failed: \d+ packets in .* packets/s", out), out

        # The judges have been asked about everything that can go wrong.
        out = run("--seeds", "1..150", "--tally", status=0, folder=folder)
        for what in ("send: SUCCESS", "send: WR_FLUSH_ERR", "send: RETRY_EXC_ERR", "send: RNR_RETRY_EXC_ERR",
                     "send: REM_ACCESS_ERR", "send: REM_INV_REQ_ERR", "send: REM_OP_ERR", "send: LOC_PROT_ERR",
                     "receive: LOC_LEN_ERR", "receive: LOC_PROT_ERR", "receive: WR_FLUSH_ERR", "event: SQ_DRAINED",
                     "event: CQ overflow", "event: QP error", "connections made again", "packets damaged", "packets lost",
                     "packets doubled or late", "stranger: packets that mean nothing",
                     "stranger: as the peer, out of sequence", "stranger: as the peer, its next request",
                     "attributes: changed in RTS", "attributes: changed in SQD", "a right of the peer is taken away",
                     "on-demand regions that went", "on-demand memory not there", "windows: bound, type 1",
                     "windows: bound, type 2", "windows: gone through", "windows: invalidated",
                     "windows: uses that must fail", "send: MW_BIND_ERR", "ATOMIC_WRITE: done", "ATOMIC_WRITE: refused",
                     "FLUSH: done", "FLUSH: refused",
                     "event: SRQ_LIMIT_REACHED", "event: LAST_WQE_REACHED", "SRQ: ran empty",
                     "SRQ: taken by RC", "SRQ: taken by UC", "SRQ: taken by UD", "SQE: back to RTS",
                     "UC send: LOC_PROT_ERR", "UC receive: REM_INV_REQ_ERR", "UC receive: LOC_PROT_ERR",
                     "UC: messages lost", "UC: no receive", "UC: message longer than its receive",
                     "UC: receive kept for the next message", "UC: WRITE without right", "UC: connections made again",
                     "UD send: LOC_LEN_ERR", "UD receive: LOC_PROT_ERR", "UD: another Q_Key", "UD: no receive",
                     "UD: datagram longer than the receive", "UD: received by multicast", "UD: QPs started again",
                     "CM: connections of which both sides know the same", "CM: messages over what was connected",
                     "CM: datagram services found", "CM: requests rejected", "CM: replies rejected", "CM: UNREACHABLE",
                     "CM: REJECTED 4", "CM: REJECTED 8", "CM: REJECTED 28", "CM: DISCONNECTED",
                     "CM: TIMEWAIT_EXIT", "CM: MRA sent",
                     "CM: processes that exit", "CM: processes that are killed"):
            assert what in out, what

        # The same seed writes the same bytes.
        run("--seed", "4", "--pcap", "a.pcap", status=0, folder=folder)
        run("--seed", "4", "--pcap", "b.pcap", status=0, folder=folder)
        first = (folder / "a.pcap").read_bytes()
        assert len(first) > 1000 and first == (folder / "b.pcap").read_bytes()

        # Crash, liveness and correctness have exit codes of their own; each leaves a capture and a command that replays it.
        for kind, status in {"crash": 127, "liveness": 128, "correctness": 129}.items():
            out = run("--seeds", "4..9", "--sabotage", kind, status=status, folder=folder)
            assert f"seed 4: {kind}" in out, out
            assert len((folder / "uroce-sim-seed-4.pcap").read_bytes()) > 100, kind
            replay = re.search(r"^replay: '(.+)' (--seed 4 --verbose)$", out, re.M)
            assert replay and replay.group(1) == SIM, out
            again = run(*replay.group(2).split(), "--sabotage", kind, status=status, folder=folder)
            assert kind == "crash" or next(l for l in out.splitlines() if l.startswith("seed 4")) in again
        out = run("--seeds", "4..6", "--keep-going", "--sabotage", "correctness", status=129, folder=folder)
        assert "3 seeds from 4 on, 3 failed" in out, out

        # Output that is lost is no crash, and gets into no other file.
        for lost in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", f'"$1" --seed 4 --pcap lost.pcap --verbose {lost}', "-", SIM], cwd=folder,
                                  stderr=subprocess.DEVNULL, timeout=300, check=False)
            assert done.returncode == 1, done
            assert (folder / "lost.pcap").read_bytes() == first, lost

        for wrong in (["--seed", "-1"], ["--count", "-1"], ["--seeds", "9..3"], ["--seeds", "x"], ["--seed", "1", "--seeds", "1..2"], ["--nonsense"]):
            run(*wrong, status=2, folder=folder)
        help_text = run("--help", status=0, folder=folder)
        for code in ("127", "128", "129"):
            assert code in help_text


main()
