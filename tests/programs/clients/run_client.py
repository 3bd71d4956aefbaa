#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the distribution, as they are, on the emulated NIC.

    run_client.py BIN_DIR GROUP|CASE...    the cases of a group, or single cases, of matrix.py
    run_client.py --groups | --cases       lists them

CLIENTS_WIRE=shm in the environment: packets go through shared memory, and it is a failure when many do not.

Each case is in a network namespace of its own. It runs with `uroce run` and captures on; server and client
have an address each, unless the case says that they share one, or that they are on two hosts. At the end every packet of all captures must satisfy tshark and the ICRC checker of tests/programs/wire.
When a case fails, its captures are kept. Exit status: 0, 1, or 77 = skipped.
"""

import contextlib
import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cm_judge
import hosts
from matrix import GROUPS, RDMA_CM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import own_namespaces  # pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent
WIRE = os.environ.get("CLIENTS_WIRE", "")  # UROCE_WIRE of all programs
TIMEOUT = 60  # seconds that no case may need
LOSSY_TIMEOUT = 10  # the same for those that lose what a slow receiver's buffer does not take ...
LOSSY_ATTEMPTS = 3  # ... and run again when that has happened
CM_TIMEOUT = 20  # the same for those that connect by RDMA CM: a message that is lost shows as four seconds
REFUSED_FOR = 5  # seconds after which a server should listen
CLONE_NEWNET = 0x40000000  # <sched.h>
EMPTY_CAPTURE = 24  # bytes of a capture without packets
RECORD_HEADER = 16  # bytes before each packet
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"  # addresses of the NICs


class Runner:
    def __init__(self, binaries, directory):
        self.uroce = binaries / "uroce"
        self.directory = directory
        self.captures = []
        self.by_udp = 0  # Datagrams sent.

    def command(self, case, role, address, more="", program=""):
        """The command line of `role`, on an emulated NIC. `program`: if it is not the case's."""
        command = [str(self.uroce), "run", "--addr", address]
        if case.capture:
            self.captures.append(self.directory / f"{case.name}.{role}.pcap")
            command += ["--pcap", str(self.captures[-1])]
        return [*command, "--", *shlex.split(program or case.command), *shlex.split(more)]

    def run(self, case):
        """Raises AssertionError, with all output in it, when something is not as it should be."""
        outputs = {}
        first_capture = len(self.captures)
        try:
            if case.mtu:
                with hosts.SecondHost(case.mtu) as second:
                    self.on_two_hosts(case, second, outputs)
            elif case.port == 0:
                self.alone(case, outputs)
            elif case.port == RDMA_CM:
                self.pair_by_cm(case, outputs)
            else:
                self.pair(case, SERVER, SERVER if case.shared else CLIENT, [], outputs)
            case.judge(*outputs.values())
        except (AssertionError, subprocess.TimeoutExpired) as error:
            text = "".join(f"--- {role}\n{output}" for role, output in outputs.items())
            kept = "".join(f"\n--- capture: {path}" for path in self.captures[first_capture:] if path.exists())
            del self.captures[first_capture:]  # It is wrong anyway.
            raise AssertionError(f"{case.command}: {error}\n{text}{kept}") from None

    def run_lossy(self, case):
        """The same for one that may lose packets: it may do so only by losing packets, and not every time."""
        files = [self.directory / f"{case.name}.{role}.pcap" for role in ("client", "server")]
        for attempts_left in reversed(range(LOSSY_ATTEMPTS)):
            try:
                return self.run(case)
            except AssertionError:
                sent, received = (file.stat().st_size for file in files)
                if attempts_left == 0 or received == sent:
                    raise
                print(f"again   {case.name}: packets were lost", flush=True)
                for file in files:
                    file.unlink()

    def alone(self, case, outputs):
        process = start(self.command(case, "alone", SERVER), self.directory / "alone.log", settings=case.settings)
        try:
            status = process.wait(TIMEOUT)
        finally:
            end(process)
            outputs["output"] = (self.directory / "alone.log").read_text()
        if case.capture and not case.speaks:
            self.captures.pop()
        assert status == 0, f"exit status {status}"

    def on_two_hosts(self, case, second, outputs):
        if case.port != 0:
            self.pair(case, hosts.HERE, hosts.THERE, second.there([]), outputs)
            return
        agent = {"OMPI_MCA_plm_rsh_agent": second.agent(self.directory)}
        self.alone(case._replace(settings={**case.settings, **agent}), outputs)

    def pair(self, case, server_address, client_address, there, outputs):
        """`there`: what runs a command on the client's host."""
        logs = {role: self.directory / f"{role}.log" for role in ("client", "server")}
        client = None
        server = start(self.command(case, "server", server_address), logs["server"], settings=case.settings)
        try:
            wait_until_listening(case.port, server)
            command = self.command(case, "client", client_address, f"{server_address} {case.client}")
            client = start([*there, *command], logs["client"], settings=case.settings)
            limit = LOSSY_TIMEOUT if case.lossy else TIMEOUT
            status = client.wait(limit), server.wait(limit)
        finally:
            for process in filter(None, (client, server)):
                end(process)
            outputs.update({role: log.read_text() for role, log in logs.items() if log.exists()})
        assert status == (0, 0), f"exit status: client {status[0]}, server {status[1]}"


    def pair_by_cm(self, case, outputs):
        logs = {role: self.directory / f"{role}.log" for role in ("client", "server")}
        server_command = self.command(case, "server", SERVER, program=case.server.format(SERVER))
        command = self.command(case, "client", SERVER if case.shared else CLIENT, case.to.format(SERVER))
        deadline = time.monotonic() + REFUSED_FOR
        server = None
        try:
            while True:
                if server is None:
                    server = start(server_command, logs["server"], settings=case.settings)
                    if case.ready:
                        wait_until_said(logs["server"], *case.ready, server)
                    else:
                        wait_until_bound(SERVER, server)
                client = start(command, logs["client"], settings=case.settings)
                try:
                    status = client.wait(CM_TIMEOUT)
                finally:
                    end(client)
                if status == 0 or time.monotonic() > deadline or not cm_judge.is_refused(self.captures[-1]):
                    break
                if cm_judge.is_answered(self.captures[-1]):
                    # It began to listen between two requests, and has counted the second one.
                    end(server)
                    server = None
            assert status == 0, f"exit status of the client: {status}"
            if not case.endless:
                status = server.wait(CM_TIMEOUT)
                assert status == 0, f"exit status of the server: {status}"
        finally:
            if server is not None:
                end(server)
            outputs.update({role: log.read_text() for role, log in logs.items() if log.exists()})
        at_server, at_client = self.captures[-2:]
        judged = (None, None) if case.shared or case.own_qps else (SERVER, CLIENT)
        cm_judge.judge(at_server, case.connections, case.datagrams, not case.leaves, judged[0])
        cm_judge.judge(at_client, case.connections, case.datagrams, not case.loses_end, judged[1])


def sent_by_udp():
    """Datagrams that all processes in this network namespace have sent."""
    lines = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Udp:")]
    return int(dict(zip(*lines))["OutDatagrams"])


def packets_in(capture):
    """Of a pcap file, in the byte order of this machine."""
    data, at, count = capture.read_bytes(), EMPTY_CAPTURE, 0
    while at + RECORD_HEADER <= len(data):
        at += RECORD_HEADER + int.from_bytes(data[at + 8:at + 12], sys.byteorder)
        count += 1
    return count


def check_captures(captures):
    """The names of the checkers that found something. (77: the machine has no tshark.)"""
    running = {}
    for checker in (["icrc_check.py", "--ours"], ["tshark_check.py"]) if captures else ():
        command = [sys.executable, str(HERE.parent / "wire" / checker[0]), *checker[1:], *map(str, captures)]
        running[checker[0]] = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    return [name for name, process in running.items() if process.wait(4 * TIMEOUT) not in (0, 77)]


def start(command, log, cwd=None, settings=None):
    with open(log, "w") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=cwd,
                                start_new_session=True, env={**os.environ, **(settings or {})})


def end(process):
    """Ends the process and what it has started: it leads a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(process, what, is_so):
    """Until is_so() while the process runs."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if is_so():
            return
        assert process.poll() is None, f"the server ended with status {process.returncode} before it listened"
        time.sleep(0.01)
    raise AssertionError(what)


def wait_until_listening(port, process):
    """Until something listens on the TCP port in this network namespace."""
    def listens():
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
        return False
    wait_for(process, f"nobody listens on TCP port {port}", listens)


def wait_until_bound(address, process):
    """Until a NIC has the address in this network namespace."""
    wanted = "%08X:12B7" % int.from_bytes(map(int, address.split(".")), "little")
    wait_for(process, f"no NIC has {address}", lambda: any(
        line.split()[1] == wanted for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]))


def wait_until_said(log, text, times, process):
    """Until the process has written the text so often."""
    wait_for(process, f"not {times} times '{text}'", lambda: log.read_text().count(text) >= times)


def run_all(runner, cases):
    """(number of cases run, names of those that failed)"""
    ran, failed = 0, []
    for case in cases:
        missing = [program for program in (case.command.split()[0], *case.needs) if not shutil.which(program)]
        reason = case.missing or (f"{missing[0]} is not installed" if missing else None)
        if reason:
            print(f"off     {case.name}: {reason}")
            continue
        ran += 1
        new_network()  # Its counters begin at 0.
        began = time.monotonic()
        try:
            runner.run_lossy(case) if case.lossy else runner.run(case)
            print(f"ok      {case.name}: {time.monotonic() - began:.2f} s", flush=True)
        except AssertionError as error:
            failed.append(case.name)
            print(f"FAILED  {case.name}: {error}", flush=True)
        runner.by_udp += sent_by_udp()
    return ran, failed


def new_network():
    """Goes on in a new network namespace. The process that disconnects for those that have died (docs/adr/0016) may stay in
    the old one for a while: the next case must not hear it."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        sys.exit(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def main():
    cases = {case.name: case for group in GROUPS.values() for case in group}
    if sys.argv[1:] in (["--groups"], ["--cases"]):
        print(";".join(GROUPS if sys.argv[1] == "--groups" else cases), end="")
        return 0
    wanted = [case for name in sys.argv[2:] for case in GROUPS.get(name, [cases[name]] if name in cases else [None])]
    if not wanted or None in wanted:
        sys.exit(__doc__)
    for variable in [name for name in os.environ if name.startswith(("UROCE_", "LD_"))]:
        del os.environ[variable]
    if WIRE:
        os.environ["UROCE_WIRE"] = WIRE
    own_namespaces.enter_or_skip("")  # Each case makes its network.
    binaries = pathlib.Path(sys.argv[1]).resolve()
    os.environ["PATH"] = f"{binaries}:{os.environ['PATH']}"
    directory = pathlib.Path(tempfile.mkdtemp(prefix="uroce-client-"))
    runner = Runner(binaries, directory)
    failed = True
    try:
        ran, failed = run_all(runner, wanted)
        failed += check_captures(runner.captures)
        if WIRE:
            packets = sum(packets_in(capture) for capture in runner.captures)  # Each twice.
            print(f"{runner.by_udp} packets by UDP, {packets} captured")
            failed += ["too many packets by UDP"] if runner.by_udp > packets / 4 else []
        print(f"{ran} of {len(wanted)} cases: " + (f"FAILED: {', '.join(failed)}" if failed else "ok"))
    finally:
        if not failed:
            shutil.rmtree(directory)
    return 1 if failed else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
