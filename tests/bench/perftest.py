# SPDX-License-Identifier: Apache-2.0
"""Rows measured with perftest, the programs that users run, each beside raw datagrams under the same condition."""
import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import measure

PORT = 18571  # TCP, over which the two sides meet.

BURNER = """
import sys, time
rest = float(sys.argv[1])
while True:
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end: pass
    if rest: time.sleep(rest)
"""

PACKETS = "each packet is copied and its ICRC checked; with the processor's caches apart (see above) both wait for them"
SLICES = "programs share the processors by time slices: it depends on who gets them, and raw datagrams that are lost cost nothing"

# What a row is measured under: its name, what stands before each command, for each program of somebody else that runs
# beside for how many seconds it rests when it has kept a core busy for 5 ms, and why rows miss the target under it.
QUIET, ONE_CORE, LOAD, BUILD = CONDITIONS = [
    ("", [], (), ""), ("one core, ", ["taskset", "-c", "0"], (), ""), ("beside a load, ", [], (0.010,), ""),
    ("beside a build, ", [], (0,) * os.cpu_count(), SLICES)]


@dataclass
class Row:
    """A program of perftest with its arguments, and what raw datagrams do instead."""
    command: str
    raw: str             # "blast", in Gb/s; "small", in messages; or the way of the ping-pong.
    target: str          # For ours / raw: the average where it is a time.
    bytes: int           # In a raw datagram.
    rounds: int = 0      # In a second, for a ping-pong.
    why: str = ""        # Why it misses the target, when it does.
    conditions: tuple = (QUIET,)
    tail: str = ""       # The target for p99, beside raw's own.
    acks: str = ""       # That beside raw datagrams which are as many as ours, where nobody else disturbs.


SMALL = "each message of 2 bytes has a WQE, a receive and two completions, and needs an ACK"
BOTH = "it waits for the ACK of its own SEND before it looks for the answer: two packets each way, raw sends one"
EVENTS = "two events for each message: to arm, fetch and look for one are system calls"
MEMORY = "the program watches its memory; where it is not known to, the background thread moves the packets, and has to get a core first"
WHOLE = "a whole round trip beside raw's half; the target's background thread has to be awake"

ROWS = (
    Row("ib_write_bw -s 65536", "blast", ">= 0.85", 4112, why=PACKETS, conditions=(QUIET, ONE_CORE, LOAD, BUILD)),
    Row("ib_read_bw -s 65536", "blast", ">= 0.85", 4112, why=PACKETS),
    Row("ib_send_bw -s 65536", "blast", ">= 0.85", 4112, why=PACKETS),
    Row("ib_send_bw -s 2 -q 4", "small", ">= 0.7", 18, why=SMALL, conditions=(QUIET, BUILD)),
    Row("ib_send_lat -s 2", "io_uring", "<= 1.5", 20, 40_000, BOTH, (QUIET, ONE_CORE, LOAD, BUILD), "<= 2", "<= 1.25"),
    Row("ib_write_lat -s 2", "io_uring", "<= 4", 36, 10_000, MEMORY, (QUIET, ONE_CORE, LOAD)),
    Row("ib_read_lat -s 2", "io_uring", "<= 4", 36, 20_000, WHOLE, (QUIET, LOAD)),
    Row("ib_send_lat -s 2 -e", "blocking", "<= 1.5", 20, 10_000, EVENTS, (QUIET, ONE_CORE, LOAD), acks="<= 1.5"),
)


def run(command, before=(), wire="udp", pair=0):
    """The numbers in the client's last line; a server on 127.0.0.1, the client on 127.0.0.2; the next `pair` on the next two."""
    port = PORT + pair
    def side(address):
        return [*before, os.path.join(measure.BIN, "uroce"), "run", "--wire", wire, "--addr", address, "--", *command.split(), "-x", "1", "-F",
                "-p", str(port)]
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(side(f"127.0.0.{2 * pair + 1}"), stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + 20
            while not measure.listens(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise RuntimeError(f"the server of {command} does not listen: {said.read()}")
                time.sleep(0.01)
            output = measure.output([*side(f"127.0.0.{2 * pair + 2}"), f"127.0.0.{2 * pair + 1}"])
            server.wait(timeout=10)
        finally:
            server.kill()
            server.wait()
    numbers = [line for line in output.splitlines() if re.match(r"^ *\d+ +\d+ ", line)]
    return [float(word) for word in numbers[-1].split()]


def gigabits(row, seconds, before, wire="udp", pair=0):
    # It measures whole seconds, and of these the middle half.
    return run(f"{row.command} -D {max(1, round(seconds))}", before, wire, pair)[3] * 8 * 2**20 / 1e9


def gigabits_of_pairs(row, seconds, pairs):
    """Of so many pairs at once, together."""
    with concurrent.futures.ThreadPoolExecutor(pairs) as pool:
        return sum(pool.map(lambda pair: gigabits(row, seconds, [], pair=pair), range(pairs)))


def thousands(row, seconds, before):
    return run(f"{row.command} -D {max(1, round(seconds))}", before)[4] * 1e3


def latency(row, seconds, before):
    """As of the raw ping-pong."""
    numbers = run(f"{row.command} -n {max(100, round(row.rounds * seconds))}", before)
    return dict(zip(("half_round_trip_us", "average_us", "_", "p99_us", "p999_us"), numbers[4:9]))


def raw_gigabits(row, seconds, before, pairs=1):
    return measure.raw(seconds, row.bytes, before, pairs=pairs) * 4096 * 8e-9


def raw_thousands(row, seconds, before):
    return measure.raw(seconds, row.bytes, before) / 1e3


def raw_latency(row, seconds, before, mode="pingpong"):
    return measure.raw_pingpong(seconds, row.bytes, row.raw, before, mode)


@contextlib.contextmanager
def load(rests):
    """While it lasts, somebody else's programs run, as on every machine that is not kept quiet."""
    processes = [subprocess.Popen([sys.executable, "-c", BURNER, str(rest)]) for rest in rests]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
