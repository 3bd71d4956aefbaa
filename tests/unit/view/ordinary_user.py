#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary user with an empty environment runs distribution programs on uroce:  ordinary_user.py CMAKE BUILD_DIR

Installs uroce into an empty /tmp and runs pairs of programs as nobody (or as the calling user, if that is not root), in
namespaces of their own so that everything that is left behind is theirs. Also the parts of the system that are not
there: no /sys/class/infiniband, no /dev/infiniband, no preload for anybody else.
Exit status: 0, 1, or 77 = skipped.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

INSIDE = "UROCE_TEST_INSIDE"  # Set once we are in namespaces of our own: who we were outside.
PREFIX = "/tmp/installed"
NOBODY = 65534
TIMEOUT = 60  # seconds that nothing here may need
TCP_PORT = 18515

WAS_ROOT = os.environ.get(INSIDE, str(os.geteuid())) == "0"
AS_USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if WAS_ROOT else []
CLEAN = ["env", "-i", "PATH=/usr/bin:/bin"]
RUN = [*AS_USER, *CLEAN, f"{PREFIX}/bin/uroce", "run"]
SHARED = ["--addr", "127.0.0.9"]  # Options of `uroce run`: server and client on one address.
PAIRS = [
    ["ibv_rc_pingpong", "-g", "1", "-n", "200", "-c"],
    ["ib_write_bw", "-x", "1", "-F", "-n", "100"],
    ["ib_send_lat", "-x", "1", "-F", "-n", "100"],
    ["ib_read_bw", "-x", "1", "-F", "-n", "5", "-a"],
    ["ib_atomic_bw", "-x", "1", "-F", "-n", "100"],
]


def start(*command, options=()):
    return subprocess.Popen([*RUN, *options, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def wait_until(what, condition):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.01)


def is_listening():
    tables = [pathlib.Path(table).read_text() for table in ("/proc/net/tcp", "/proc/net/tcp6")]
    fields = [line.split() for table in tables for line in table.splitlines()[1:]]
    return any(f[3] == "0A" and int(f[1].rsplit(":", 1)[1], 16) == TCP_PORT for f in fields)


def pair(command, options=(), wanted=""):
    server = start(*command, options=options)
    wait_until("the server listens", lambda: is_listening() or server.poll() is not None)
    client = start(*command, "127.0.0.1", options=options)
    texts = [process.communicate(timeout=TIMEOUT)[0] for process in (client, server)]
    status = [process.returncode for process in (client, server)]
    assert status == [0, 0], f"{command} ended with {status}:\n" + "\n".join(texts)
    assert wanted in texts[0], f"{command} does not say '{wanted}':\n{texts[0]}"
    print("ok", *options, *command)


def kill_everything(options=()):
    """A server and a client are killed in the middle of it; the next ones don't notice."""
    command = ["ib_write_bw", "-x", "1", "-F", "-D", str(TIMEOUT)]
    both = [start(*command, options=options)]
    wait_until("the server listens", is_listening)
    both.append(start(*command, "127.0.0.1", options=options))
    wait_until("the client has met the server", lambda: not is_listening() and has_socket(both[1].pid))
    wait_until("a third process sees their counters", lambda: sent_packets(options) > 0)
    for process in both:
        process.send_signal(signal.SIGKILL)
    for process in both:
        text, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == -signal.SIGKILL, f"it had ended with {process.returncode}:\n{text}"
    assert sent_packets(options) == 0, "counters of processes that are gone"
    print("ok, killed", *options, *command)


def sent_packets(options):
    file = "/sys/class/infiniband/uroce0/ports/1/hw_counters/sent_pkts"
    text, _ = start("cat", file, options=options).communicate(timeout=TIMEOUT)
    return int(text)


def has_socket(pid):
    """True when the process has a NIC: a UDP socket at port 4791."""
    return ":12B7 " in pathlib.Path(f"/proc/{pid}/net/udp").read_text()


def check_view():
    """Programs below uroce see the view, and no others do."""
    file = "/sys/class/infiniband/uroce0/ports/1/state"
    text, _ = start("cat", file).communicate(timeout=TIMEOUT)
    assert text == "4: ACTIVE\n", text
    for path in ("/sys/class/infiniband/uroce0", "/dev/infiniband/uverbs0", "/etc/ld.so.preload"):
        assert not pathlib.Path(path).exists(), f"{path} is there"
    devices = subprocess.run([*AS_USER, *CLEAN, "ibv_devices"], capture_output=True, text=True, timeout=TIMEOUT)
    assert "uroce" not in devices.stdout, devices.stdout


def check_nothing_left():
    for directory in ("/tmp", "/dev/shm"):
        left = [str(path) for path in pathlib.Path(directory).rglob("*") if not str(path).startswith(PREFIX)]
        assert not left, f"left behind: {left}"


def empty(directory):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", directory], check=True)


def inside(cmake, build):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    empty("/dev/shm")
    # The build may be below /tmp, which goes out of sight.
    subprocess.run([cmake, "--install", build, "--prefix", PREFIX, "--component", "command"], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "DESTDIR": "/dev/shm"})
    os.chdir("/")
    empty("/tmp")
    shutil.move("/dev/shm" + PREFIX, PREFIX)
    os.rmdir("/dev/shm/tmp")
    check_view()
    for command in PAIRS:
        pair(command)
    # It opens the counter once, and reads it before and after.
    counter = "hw_counters/rdma_sends"
    pair(["ib_send_bw", "-x", "1", "-F", "-n", "100", "-W", counter], wanted=f"{counter}=100")
    check_nothing_left()
    for options in ((), SHARED):
        pair(PAIRS[0], options)
        kill_everything(options)
        check_nothing_left()
        pair(PAIRS[0], options)
        check_nothing_left()


def main(cmake, build):
    if INSIDE not in os.environ:
        missing = [command[0] for command in PAIRS if shutil.which(command[0]) is None]
        if missing:
            print(f"skipped: {missing} are not installed")
            return 77
        os.environ[INSIDE] = str(os.geteuid())
        root = [] if WAS_ROOT else ["-r"]
        os.execvp("unshare", ["unshare", "-mn", *root, sys.executable, *sys.argv])
    try:
        inside(cmake, build)
    except (AssertionError, subprocess.SubprocessError) as error:
        print(f"FAILED: {error}")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
