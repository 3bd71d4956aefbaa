#!/usr/bin/env python3
"""Runs a program of the distribution, as it is, on the emulated NIC:  run_client.py BIN_DIR CASE  (or --list)

A case is a command, or a server and a client made from one command. They run in a network namespace of their own, with
`uroce run` and a capture each; every packet of the captures must satisfy tshark and the ICRC checker of
tests/wire. Exit status: 0, 1, or 77 = skipped.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
OWN_NAMESPACE = "UROCE_TEST_OWN_NAMESPACE"  # Set in the environment once we are in it.
TIMEOUT = 60  # seconds that nothing here may need

PERFTEST = "-d uroce0 -x 1 -F -n 200 -s 4100"
# name: (command, what its output must contain)
LOOK = {
    "devices": ("ibv_devices", ["uroce0"]),
    "devinfo": ("ibv_devinfo -v", ["uroce0", "PORT_ACTIVE", "Ethernet", "::ffff:127.0.0.1", "RoCE v2"]),
}
# name: (TCP port that the server listens on, command). The client is the same command with the server's address.
PAIRS = {
    "rc_pingpong": (18515, "ibv_rc_pingpong -g 1 -n 200"),
    "rc_pingpong_checked": (18515, "ibv_rc_pingpong -g 1 -n 200 -c"),
    "rc_pingpong_events": (18515, "ibv_rc_pingpong -g 1 -n 200 -e"),
    "rc_pingpong_long": (18515, "ibv_rc_pingpong -g 1 -n 20 -s 100000 -m 4096 -c"),
}
for op in ("send", "write", "read", "atomic"):
    size = PERFTEST if op != "atomic" else PERFTEST.replace(" -s 4100", "")
    for kind in ("bw", "lat"):
        PAIRS[f"{op}_{kind}"] = (18515, f"ib_{op}_{kind} {size}")
        PAIRS[f"{op}_{kind}_old_post"] = (18515, f"ib_{op}_{kind} {size} --use_old_post_send")
    PAIRS[f"{op}_bw_16_qps"] = (18515, f"ib_{op}_bw {size} -q 16")
    PAIRS[f"{op}_bw_both_ways"] = (18515, f"ib_{op}_bw {size} -b")
    if op != "write":  # perftest has no events for RDMA WRITE.
        PAIRS[f"{op}_bw_events"] = (18515, f"ib_{op}_bw {size} -e")
    if op != "atomic":
        PAIRS[f"{op}_bw_all_sizes"] = (18515, f"ib_{op}_bw -d uroce0 -x 1 -F -n 5 -a")


BIN = pathlib.Path(".")


def on_uroce(command, capture):
    """The command line that runs `command` on an emulated NIC."""
    return [str(BIN / "uroce"), "run", "--pcap", str(capture), "--", *shlex.split(command)]


def wait_until_listening(port, process):
    """Until something listens on the TCP port in this network namespace."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return
        if process.poll() is not None:
            raise AssertionError(f"the server ended with status {process.returncode} before it listened")
        time.sleep(0.01)
    raise AssertionError(f"nobody listens on TCP port {port}")


def run(command, log):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                          timeout=TIMEOUT).returncode


def check_captures(captures):
    for checker in (["icrc_check.py", "--ours"], ["tshark_check.py"]):
        command = [sys.executable, str(HERE.parent / "wire" / checker[0]), *checker[1:], *map(str, captures)]
        status = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=2 * TIMEOUT).returncode
        assert status in (0, 77), f"{checker[0]} is not content with the capture"


def look(directory, command, wanted):
    with open(directory / "log", "w+") as log:
        status = run(on_uroce(command, directory / "capture.pcap"), log)
        log.seek(0)
        text = log.read()
    print(text)
    assert status == 0, f"exit status {status}"
    for words in wanted:
        assert words in text, f"the output does not say {words}"


def pair(directory, port, command):
    captures = [directory / "server.pcap", directory / "client.pcap"]
    logs = [directory / "server.log", directory / "client.log"]
    try:
        with open(logs[0], "w") as server_log, open(logs[1], "w") as client_log:
            server = subprocess.Popen(on_uroce(command, captures[0]), stdin=subprocess.DEVNULL, stdout=server_log,
                                      stderr=subprocess.STDOUT)
            try:
                wait_until_listening(port, server)
                client_status = run([*on_uroce(command, captures[1]), "127.0.0.1"], client_log)
                server_status = server.wait(TIMEOUT)
            finally:
                server.kill()
                server.wait()
        assert (client_status, server_status) == (0, 0), f"exit status: client {client_status}, server {server_status}"
    except BaseException:
        for log in logs:
            print(f"--- {log.name}\n{log.read_text() if log.exists() else ''}")
        raise
    print(logs[1].read_text())
    check_captures(captures)


def main():
    if sys.argv[1:] == ["--list"]:
        print(";".join([*LOOK, *PAIRS]), end="")
        return 0
    if len(sys.argv) != 3 or sys.argv[2] not in {**LOOK, **PAIRS}:
        sys.exit(__doc__)
    global BIN
    BIN, case = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    for variable in [name for name in os.environ if name.startswith(("UROCE_", "LD_")) and name != OWN_NAMESPACE]:
        del os.environ[variable]
    if OWN_NAMESPACE not in os.environ:
        os.environ[OWN_NAMESPACE] = "yes"
        os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    port, command = PAIRS[case] if case in PAIRS else (None, LOOK[case][0])
    if shutil.which(command.split()[0]) is None:
        print(f"skipped: {command.split()[0]} is not installed")
        return 77
    with tempfile.TemporaryDirectory(prefix="uroce-client-") as directory:
        try:
            if port is None:
                look(pathlib.Path(directory), *LOOK[case])
            else:
                pair(pathlib.Path(directory), port, command)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"FAILED {case}: {command}\n{error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
