#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that share one address:  sharing.py BIN_DIR SCENARIO [SEED]

churn SEED   eight processes at a time, rdma_server and rdma_client in pairs. Half of the pairs are killed (kill -9) in the
             middle, and the broker is, several times; all others transfer and verify what they were asked to.
programs     four pairs of ibv_rc_pingpong of the distribution at once, contents checked.

With SHARING_WIRE=shm they are told to use shared memory, else UDP. Everything happens in a network namespace of its own. Afterwards no process may be left, and the address must be free.
Exit status: 0, 1, or 77 = skipped.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from own_namespaces import brokers, enter_or_skip, port_is_free  # pylint: disable=wrong-import-position

PATIENCE = 60  # seconds that nothing here may need
ADDRESS = "127.0.0.1"
WIRE = os.environ.get("SHARING_WIRE", "udp")
BIN = pathlib.Path(".")


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.002)


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    return {**clean, "UROCE_ADDR": ADDRESS, "UROCE_WIRE": WIRE}


class Process:
    def __init__(self, command):
        self.command = " ".join(map(str, command))
        self.out = tempfile.TemporaryFile(mode="w+")
        self.err = tempfile.NamedTemporaryFile(mode="r")
        with open(self.err.name, "w") as err:
            self.process = subprocess.Popen(list(map(str, command)), env=environment(), stdin=subprocess.DEVNULL,
                                            stdout=self.out, stderr=err)

    def match(self, pattern):
        """The match of `pattern` in what it has written to stderr so far."""
        return re.search(pattern, pathlib.Path(self.err.name).read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def output(self):
        self.out.seek(0)
        return self.out.read()

    def ended(self):
        return self.process.poll() is not None

    def __str__(self):
        return (f"{self.command}\n  status {self.process.poll()}\n  stdout: {self.output()}\n"
                f"  stderr: {pathlib.Path(self.err.name).read_text()}")


class Pair:
    """rdma_server and rdma_client on the one address."""

    sent_by_shm = 0  # Packets, by all of them.

    def __init__(self, chance, lifetime):
        self.chance = chance
        self.server = Process([BIN / "rdma_server", "--port", 0, "--num-qp", self.qps(), "--json"])
        self.client = None
        self.dies_at = None if lifetime is None else time.monotonic() + lifetime

    def qps(self):
        if not hasattr(self, "_qps"):
            self._qps = self.chance.choice([1, 2, 5])
        return self._qps

    def processes(self):
        return [p for p in (self.server, self.client) if p]

    def step(self):
        """True when both have come to their end."""
        if self.dies_at is not None and time.monotonic() >= self.dies_at:
            for process in self.chance.sample(self.processes(), len(self.processes())):
                process.kill()
            return True
        if self.client is None:
            listening = self.server.match(r"waits for a client on TCP port (\d+)")
            if listening:
                self.client = Process([BIN / "rdma_client", ADDRESS, "--port", listening[1], "--op", "mixed",
                                       "--size", self.chance.choice([64, 5000, 70000]), "--iters",
                                       self.chance.choice([70, 350]), "--num-qp", self.qps(), "--verify", "--json",
                                       *self.chance.choice([[], ["--events"]])])
            assert listening or not self.server.ended(), self.server
            return False
        if not (self.server.ended() and self.client.ended()):
            return False
        if self.dies_at is None:
            self.judge()
        return True  # One that was to be killed was faster.

    def judge(self):
        for process in self.processes():
            assert process.process.returncode == 0, process
            result = json.loads(process.output())
            Pair.sent_by_shm += result["nic"]["port"]["sent_by_shm"]
            assert result["ok"] and result["verified"]["wrong_messages"] == 0, process
            assert result["verified"]["messages"] > 0 or process is self.server, process


def strange_descriptors(broker):
    fine = re.compile(r"socket:.*|/dev/null|pipe:.*|/memfd:uroce-claims.*")
    try:
        targets = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{broker}/fd").iterdir()]
    except OSError:
        return []  # It has ended.
    return [target for target in targets if not fine.fullmatch(target)]


def check_descriptors(broker):
    """It keeps sockets and the file of claims, and nothing of the process that started it. Other files, as the loader's, are open for a moment only."""
    eventually(lambda: not strange_descriptors(broker), f"only those, not {strange_descriptors(broker)}")


def nothing_is_left():
    eventually(lambda: not brokers(), "no broker")
    eventually(lambda: port_is_free(ADDRESS), "the address is free")


def churn(seed):
    chance = random.Random(seed)
    pairs_left, broker_kills_left, finished, killed = 20, 4, 0, 0
    running = []
    next_broker_kill = time.monotonic() + chance.uniform(0.1, 0.5)
    deadline = time.monotonic() + 3 * PATIENCE
    try:
        while running or pairs_left:
            assert time.monotonic() < deadline, f"{len(running)} pairs run for ever: {running[0].server}"
            while len(running) < 4 and pairs_left:
                pairs_left -= 1
                running.append(Pair(chance, chance.uniform(0.01, 0.4) if chance.random() < 0.5 else None))
            for pair in list(running):
                if pair.step():
                    finished += pair.dies_at is None
                    killed += pair.dies_at is not None
                    running.remove(pair)
            if broker_kills_left and time.monotonic() > next_broker_kill:
                for broker in brokers():
                    check_descriptors(broker)
                    with contextlib.suppress(ProcessLookupError):  # Its last user has left.
                        os.kill(broker, signal.SIGKILL)
                broker_kills_left -= 1
                next_broker_kill = time.monotonic() + chance.uniform(0.05, 0.5)
            time.sleep(0.002)
    finally:
        for pair in running:
            for process in pair.processes():
                process.kill()
    nothing_is_left()
    assert (Pair.sent_by_shm > 0) == (WIRE == "shm"), f"{Pair.sent_by_shm} packets went through shared memory"
    print(f"seed {seed}: {finished} pairs transferred and verified, {killed} were killed, "
          f"the broker {4 - broker_kills_left} times")


def programs():
    if not shutil.which("ibv_rc_pingpong"):
        print("SKIPPED: ibv_rc_pingpong is not installed")
        sys.exit(77)
    on_uroce = [BIN / "uroce", "run", "--addr", ADDRESS, "--"]
    servers, clients = [], []
    try:
        for n in range(4):
            command = ["ibv_rc_pingpong", "-g", "1", "-n", "500", "-c", "-p", str(18600 + n)]
            servers.append(Process([*on_uroce, *command]))
        for n, server in enumerate(servers):
            eventually(lambda: server.ended() or is_listening(18600 + n), "listens")
            clients.append(Process([*on_uroce, "ibv_rc_pingpong", "-g", "1", "-n", "500", "-c", "-p", str(18600 + n),
                                    ADDRESS]))
        slots = set()
        for process in servers + clients:
            eventually(process.ended, "ended")
            assert process.process.returncode == 0, process
            slots.add(re.search(r"local address: .*QPN 0x(\w{2})\w{4}", process.output())[1])
        assert len(slots) == 8, slots
    finally:
        for process in servers + clients:
            process.kill()
    nothing_is_left()


def is_listening(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def main():
    global BIN
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    BIN = pathlib.Path(sys.argv[1]).resolve()
    enter_or_skip()
    if sys.argv[2] == "churn":
        churn(int(sys.argv[3]))
    else:
        programs()


if __name__ == "__main__":
    main()
