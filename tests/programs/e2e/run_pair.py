#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rdma_server and rdma_client as two processes, for the e2e tests (and by hand: run_pair.py BIN_DIR SCENARIO).

A scenario is a function named scenario_* in one of the e2e_*.py files beside this one. It starts processes through the
classes here and raises AssertionError when something is not as it should be. Exit status: 0, 1, or 77 = skipped.
"""

import contextlib
import importlib
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import own_namespaces  # pylint: disable=wrong-import-position

BIN = pathlib.Path(".")
WIRE = os.environ.get("E2E_WIRE", "")  # UROCE_WIRE of all processes
TIMEOUT = 60  # seconds that no process of these tests may need
NEVER_HEALTHY = ("icrc_errors", "parse_errors", "wrong_pkey", "retry_exceeded_err")  # counters
OPS = ("send", "send-imm", "write", "write-imm", "read", "cas", "faa")


class Skip(Exception):
    """The machine does not allow what the scenario needs."""


def need_namespaces():
    """For scenarios that change the network or mount something."""
    if own_namespaces.INSIDE not in os.environ:
        raise Skip("no permission to make namespaces")


class Tool:
    """A running rdma_server or rdma_client. Its stderr is read as it comes, so that tests can wait for a line of it."""

    def __init__(self, name, arguments, env=None, launcher=()):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
        if WIRE:
            environment["UROCE_WIRE"] = WIRE
        environment["LC_ALL"] = "C"  # --trace speaks the user's language.
        environment.update(env or {})
        self.command = [*map(str, launcher), str(BIN / name), *map(str, arguments)]
        self.stdout_file = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(self.command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.stdout_file, stderr=subprocess.PIPE, encoding="utf-8")
        self.lines = []
        self.news = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append(None)
            self.news.notify_all()

    def wait_for_line(self, pattern):
        """The match of the first stderr line that `pattern` is found in."""
        deadline = time.monotonic() + TIMEOUT
        seen = 0
        with self.news:
            while True:
                for line in self.lines[seen:]:
                    seen += 1
                    if line is None:
                        raise AssertionError(f"no line like '{pattern}' from {self}")
                    match = re.search(pattern, line)
                    if match:
                        return match
                if not self.news.wait(deadline - time.monotonic()):
                    raise AssertionError(f"no line like '{pattern}' in time from {self}")

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, timeout=TIMEOUT):
        """Waits for the end; returns the exit status."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end within {timeout} s: {self}") from None
        self.reader.join(TIMEOUT)
        self.process.stderr.close()
        self.stdout_file.seek(0)
        self.stdout = self.stdout_file.read()
        self.stdout_file.close()
        return self.process.returncode

    @property
    def stderr(self):
        return "\n".join(line for line in self.lines if line is not None)

    def result(self):
        """The JSON object on stdout, which must be all there is."""
        assert self.stdout.count("\n") == 1 and self.stdout.endswith("\n"), f"not one line of JSON: {self}"
        return json.loads(self.stdout)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.finish()

    def __str__(self):
        return f"{' '.join(self.command)}\n--- status {self.process.returncode}, stderr:\n{self.stderr}"


class Server(Tool):
    """Listens on a port that the kernel chooses, so that tests never collide."""

    def __init__(self, arguments=(), env=None, launcher=(), extra=("--json",)):
        super().__init__("rdma_server", ["--port", "0", *extra, *arguments], env, launcher)
        place = self.wait_for_line(r"waits for a client on (?:TCP|RDMA CM) port (\d+)(?: of (\S+))?")
        self.port, self.address = int(place.group(1)), place.group(2)


class Client(Tool):
    def __init__(self, server, arguments=(), env=None, launcher=(), host="127.0.0.1", extra=("--json",)):
        super().__init__("rdma_client", [server.address or host, "--port", server.port, *extra, *arguments], env, launcher)


class Pair:
    """A server and a client with `with`: whatever happens, both are gone afterwards."""

    def __init__(self, client_args=(), server_args=(), env=None, client_env=None, launcher=(), host="127.0.0.1"):
        self.server = Server(server_args, env, launcher)
        try:
            self.client = Client(self.server, client_args, {**(env or {}), **(client_env or {})}, launcher, host)
        except BaseException:
            self.server.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.kill()
        self.server.kill()

    def finish(self):
        return self.client.finish(), self.server.finish()


def check(condition, what, *tools):
    if not condition:
        raise AssertionError("\n".join([str(what), *map(str, tools)]))


def per_op(op, iterations):
    """How many operations of each kind one QP performs."""
    counts = {}
    for i in range(iterations):
        name = OPS[i % len(OPS)] if op == "mixed" else op
        counts[name] = counts.get(name, 0) + 1
    return counts


def check_initiated(stats, op, size, iterations, qps, pair):
    expected = {name: count * qps for name, count in per_op(op, iterations).items()}
    check(stats["per_op"] == expected, f"operations {stats['per_op']} != {expected}", pair.client, pair.server)
    moved = sum(count * (8 if name in ("cas", "faa") else size) for name, count in expected.items())
    check(stats["bytes"] == moved, f"{stats['bytes']} bytes != {moved}", pair.client, pair.server)
    latency = stats["latency_us"]
    values = [latency[key] for key in ("min", "p50", "p99", "p999", "max")]
    check(values == sorted(values) and values[0] > 0, f"latencies {latency}", pair.client)


def check_verified(initiator, target, op, iterations, qps, pair):
    """Every READ and atomic at the initiator, every SEND and WRITE at the target, two words of atomics per QP."""
    counts = per_op(op, iterations)
    back = sum(counts.get(name, 0) for name in ("read", "cas", "faa")) * qps
    there = sum(counts.get(name, 0) for name in ("send", "send-imm", "write", "write-imm")) * qps
    if "cas" in counts or "faa" in counts:
        there += qps
    check(initiator == back, f"initiator verified {initiator} messages, not {back}", pair.client, pair.server)
    check(target == there, f"target verified {target} messages, not {there}", pair.client, pair.server)


def check_nic(result, tool, zero=NEVER_HEALTHY):
    """On a healthy wire nothing may be malformed. (Retransmissions on a busy machine are no mistake, and our loopback
    address may have belonged to a NIC whose peer still sends to it: unknown_qp is none either.)"""
    counters = result["nic"]["counters"]
    for name in zero:
        check(counters[name] == 0, f"{name} = {counters[name]}", tool)
    check(result["nic"]["engine"]["name"] and result["nic"]["engine"]["reason"], "no engine named", tool)


def transfer(op="mixed", size=4096, iterations=14, qps=4, options=(), verify=True, bidir=False,
             server_args_extra=(), **pair_options):
    """Runs one pair to a good end and checks everything that both sides report. Returns (client's, server's) JSON."""
    arguments = ["--op", op, "--size", size, "--iters", iterations, "--num-qp", qps, *options]
    arguments += ["--verify"] if verify else []
    arguments += ["--bidir"] if bidir else []
    with Pair(arguments, ["--num-qp", qps, *server_args_extra], **pair_options) as pair:
        status = pair.finish()
        check(status == (0, 0), f"status {status}", pair.client, pair.server)
        client, server = pair.client.result(), pair.server.result()
        for result, tool in ((client, pair.client), (server, pair.server)):
            check(result["ok"] and result["exit"] == 0 and result["error"] is None, result, tool)
            check_nic(result, tool)
        check(client["workload"] == server["workload"], "workloads differ", pair.client, pair.server)
        real_size = 8 if op in ("cas", "faa") else size
        sides = [(client, server)] + ([(server, client)] if bidir else [])
        for initiator, _ in sides:
            check_initiated(initiator["initiated"], op, real_size, iterations, qps, pair)
        if verify and not bidir:
            check_verified(client["verified"]["messages"], server["verified"]["messages"], op, iterations, qps, pair)
            check(client["peer_verified"]["messages"] == server["verified"]["messages"], "verdicts differ", pair.client)
        if verify:
            for result in (client, server):
                check(result["verified"]["wrong_messages"] == 0, result["verified"], pair.client, pair.server)
        return client, server


def main():
    global BIN
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with contextlib.suppress(own_namespaces.NotPermitted):  # Then on the host's network, where other tests may run.
        own_namespaces.enter("nm", ("", "r"))
    here = pathlib.Path(__file__).resolve()
    sys.path.insert(0, str(here.parent))
    sys.modules["run_pair"] = sys.modules["__main__"]  # the scenarios share our BIN
    BIN = pathlib.Path(sys.argv[1]).resolve()
    name, arguments = "scenario_" + sys.argv[2], sys.argv[3:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ctest's time-out still cleans up
    for path in sorted(here.parent.glob("e2e_*.py")):
        module = importlib.import_module(path.stem)
        if hasattr(module, name):
            break
    else:
        sys.exit(f"no scenario '{sys.argv[2]}'")
    scenario = getattr(module, name)
    try:
        with tempfile.TemporaryDirectory() as own:  # The same scenario may run beside this one, over another wire.
            if not arguments and "directory" in inspect.signature(scenario).parameters:
                arguments = [own]
            scenario(*arguments)
    except Skip as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(77)
    except AssertionError as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
