# SPDX-License-Identifier: Apache-2.0
"""Processes that do as they are told, what connects them, and what must not be left of them."""

import os
import re
import signal
import subprocess
import tempfile
import time

from own_namespaces import brokers, port_is_free

PATIENCE = 60  # seconds that nothing here may need
ADDRESS = "127.0.0.1"

# From enum ibv_wc_status: what a link may end with when its other end has gone, or has taken its memory away.
GONE = {5: "WR_FLUSH_ERR", 12: "RETRY_EXC_ERR"}
NO_MEMORY = {4: "LOC_PROT_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", **GONE}


class Failure(Exception):
    pass


class Actor:
    """A process that does as it is told. `dead`: it has been made to end."""

    def __init__(self, chaos, name, environment, capture=None):
        self.chaos, self.name, self.environment, self.capture = chaos, name, environment, capture
        self.dead = self.was_cut_off = False
        self.has_idle_child = False
        self.waiting = []  # Judges of the answers to come, oldest first.
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([chaos.bin / "chaos_actor"], env={**clean_environment(), **environment},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0,
                                        start_new_session=True, preexec_fn=capture and capture.in_child)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.unread = b""

    def tell(self, command, judge=None):
        """Sends a command, and has `judge` look at the answer when it comes; by default it must be "ok"."""
        self.chaos.trace(f"{self.name} < {command}")
        self.waiting.append((command, judge or self.must_be_ok))
        try:
            self.process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            pass  # read() says why.

    def must_be_ok(self, command, answer):
        if answer != "ok":
            raise Failure(f"{self}: {command}: {answer}")

    def read(self):
        chunk = self.process.stdout.read()
        if chunk == b"":
            if self.waiting and not self.dead:
                raise Failure(f"{self} ended with status {self.process.wait()} at: {self.waiting[0][0]}")
            self.waiting.clear()
            return
        *lines, self.unread = (self.unread + (chunk or b"")).split(b"\n")
        for line in lines:
            command, judge = self.waiting.pop(0)
            self.chaos.trace(f"{self.name} > {line.decode()}")
            judge(command, line.decode())

    def kill(self):
        self.dead = self.was_cut_off = True
        self.process.kill()

    def bury(self):
        """After the end of one that was made to end."""
        status = self.process.wait(PATIENCE)
        if status not in (0, -signal.SIGKILL):
            raise Failure(f"{self} ended with status {status}")

    def end_for_good(self):
        """Whatever it does, and its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __str__(self):
        self.log.seek(0)
        said = self.log.read().strip()
        setting = " ".join(f"{k}={v}" for k, v in self.environment.items())
        return f"{self.name} ({setting})" + (f" [{said}]" if said else "")


class Link:
    """Two actors that are connected. `broken`: statuses with which a transfer may end from now on, if any."""

    def __init__(self, number, a, b):
        self.number, self.ends = number, (a, b)
        self.broken = None
        self.forgets = False  # What was written is there no more: an end has other memory now.

    def judge(self, actor):
        def look(command, answer):
            if answer == "ok":
                return
            status = re.fullmatch(r"status (\d+)", answer)
            if self.broken is not None and status and int(status[1]) in self.broken:
                return
            if self.forgets and answer.startswith(("the counter was", "what was read")):
                return
            raise Failure(f"{actor}: {command}: {answer}; link between {self.ends[0].name} and {self.ends[1].name}, "
                          f"which may end with {list((self.broken or {}).values())}")
        return look


def clean_environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    # To look for leaks, a child of fork() needs locks of its allocator, which threads of its parent may have for ever.
    return {**clean, "ASAN_OPTIONS": "detect_leaks=0"}


def nothing_is_left():
    for condition, what in ((lambda: not brokers(), "a broker is left"),
                            (lambda: port_is_free(ADDRESS), "somebody still has the address")):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise Failure(what)
            time.sleep(0.002)
