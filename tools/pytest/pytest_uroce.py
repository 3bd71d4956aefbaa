# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: tests on emulated RDMA NICs (uroce).

    def test_transfer(uroce_pair):
        uroce_pair.run(["ib_write_bw", "-x", "1", "-F"], ["ib_write_bw", "-x", "1", "-F", "127.0.0.1"])

    @pytest.mark.uroce_faults("loss=1%")                  # for all NICs of the test
    def test_with_losses(uroce_nic):
        uroce_nic(faults="call=ibv_create_cq#1:ENOMEM").run(["my_program"], status=1)

Each NIC has a capture, and remembers what breaks. Those of tests that fail are kept; the failure says where, and what broke.
"""

import difflib
import os
import pathlib
import shutil
import subprocess
import time

import pytest


# Each is a variable UROCE_... of README. Captures and recordings are the plugin's own.
SETTINGS = ("addr", "devices", "broker", "engine", "offload", "wire", "faults", "control", "refusals", "seed", "lid", "gid0",
            "vendor", "strict", "backend")


def check_setting(name):
    if name not in SETTINGS:
        near = difflib.get_close_matches(name, SETTINGS)
        advice = f"is {' or '.join(near)} meant?" if near else f"there are {', '.join(SETTINGS)}"
        raise TypeError(f"uroce_nic: no setting has the name {name!r}; {advice}")


def uroce():
    return shutil.which("uroce") or "uroce"


class Nic:
    """Settings for programs that run on emulated NICs. `command` puts `uroce run` in front of a command."""

    def __init__(self, capture, faults=None, **settings):
        for name in settings:
            check_setting(name)
        self.capture = pathlib.Path(capture)
        self.recorded = self.capture.with_suffix(".recorded")
        self.options = ["--pcap", f">>{self.capture}", "--record", str(self.recorded)]
        if faults:
            self.options += ["--faults", faults]
        self.environment = {f"UROCE_{name.upper()}": str(value) for name, value in settings.items()}

    def command(self, command):
        return [uroce(), "run", *self.options, "--", *map(str, command)]

    def start(self, command, **arguments):
        """A subprocess.Popen; its output is text on one pipe unless `arguments` say something else."""
        arguments = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **arguments}
        if arguments["text"]:
            arguments.setdefault("errors", "backslashreplace")  # Programs may print any bytes.
        return subprocess.Popen(self.command(command), env={**os.environ, **self.environment}, **arguments)

    def control(self, process, command):
        """Sends a command of `uroce ctl` to a process that start() has made, with control="on": as soon as it has asked for
        RDMA devices. Returns the answer."""
        ctl = [uroce(), "ctl", str(process.pid), command]
        end = time.monotonic() + 60
        while True:
            asked = subprocess.run(ctl, capture_output=True, text=True, check=False)
            if asked.returncode == 0:
                return asked.stdout
            if "takes no commands" not in asked.stderr or process.poll() is not None or time.monotonic() > end:
                pytest.fail(asked.stderr)
            time.sleep(0.02)

    def what_broke(self):
        """The first sentence of what the NIC remembers; "" if nothing broke."""
        if not self.recorded.exists():
            return ""
        told = subprocess.run([uroce(), "explain", str(self.recorded)], capture_output=True, text=True, check=False)
        return told.stdout.partition("\n")[0] if told.returncode == 0 else ""

    def forget(self):
        self.capture.unlink(missing_ok=True)
        shutil.rmtree(self.recorded, ignore_errors=True)

    def run(self, command, status=0, timeout=60):
        """What the command prints. Fails the test when it does not end with `status` in `timeout` seconds."""
        return finish(self.start(command), status, time.monotonic() + timeout)


class Pair:
    """Two NICs, for the two sides of a connection."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def run(self, server, client, timeout=60):
        """Runs both commands: the client when the server listens on a TCP port. Returns what they print."""
        end = time.monotonic() + timeout
        server_process = self.server.start(server)
        try:
            while server_process.poll() is None and not listens(server_process.pid):
                if time.monotonic() > end:
                    pytest.fail(f"{server[0]} does not listen on a TCP port")
                time.sleep(0.02)
            client_output = finish(self.client.start(client), 0, end)
            return finish(server_process, 0, end), client_output
        finally:
            if server_process.poll() is None:
                server_process.kill()
                server_process.wait()


def finish(process, status, end):
    try:
        output, _ = process.communicate(timeout=max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        pytest.fail(f"{process.args[-1]}: no end in time; it has printed:\n{output}")
    if process.returncode != status:
        pytest.fail(f"{' '.join(process.args)}\nended with {process.returncode}, not {status}, and printed:\n{output}")
    return output


def listens(pid):
    """Whether the process has a TCP socket that listens."""
    sockets = set()
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        for table in ("tcp", "tcp6"):
            rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
            if any(row[3] == "0A" and f"socket:[{row[9]}]" in sockets for row in rows):
                return True
    except OSError:  # It has ended, or a descriptor has been closed meanwhile.
        pass
    return False


@pytest.fixture
def uroce_nic(request, tmp_path):
    """A function that makes NICs: uroce_nic(faults="loss=1%", devices=2, seed=1, ...); any setting by its name."""
    mark = request.node.get_closest_marker("uroce_faults")
    nics = request.node.uroce_nics = []

    def make(faults=mark.args[0] if mark else None, **settings):
        nics.append(Nic(tmp_path / f"nic{len(nics)}.pcapng", faults, **settings))
        return nics[-1]

    yield make
    if not getattr(request.node, "uroce_failed", False):
        for nic in nics:
            nic.forget()


@pytest.fixture
def uroce_pair(uroce_nic):
    """Two NICs, and run(server_command, client_command)."""
    return Pair(uroce_nic(), uroce_nic())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed:
        item.uroce_failed = True
    nics = [nic for nic in getattr(item, "uroce_nics", []) if nic.capture.exists()]
    if report.failed and report.when == "call" and nics:
        broken = [f"{nic.capture.stem}: {sentence}\n" for nic in nics if (sentence := nic.what_broke())]
        captures = "".join(f"{nic.capture}\n" for nic in nics)
        report.sections.append(("uroce", "".join(broken) + captures + "What happened: uroce explain FILE..."))


def pytest_configure(config):
    config.addinivalue_line("markers", "uroce_faults(spec): faults for all NICs of the test, as for `uroce run --faults`")
