# SPDX-License-Identifier: Apache-2.0
"""A running process is told from outside what goes wrong."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time

import run_pair
from e2e_record import uroce
from run_pair import TIMEOUT, Pair, check


def ctl(process, *command):
    status, told, error = uroce("ctl", process, *command)
    check(status == 0, (command, status, error))
    return told


def counter(process, name):
    return sum(int(line.split()[2]) for line in ctl(process, "counters", name).splitlines())


def wait_until(pair, happened, what):
    end = time.monotonic() + TIMEOUT
    while not happened():
        check(time.monotonic() < end, f"never: {what}", pair.client, pair.server)
        check(pair.client.process.poll() is None, f"ended before: {what}", pair.client, pair.server)


def one_is_stopped(client, server):
    """Of all processes one is stopped: the others' answers come at once, and the wait for it ends."""
    client.signal(signal.SIGSTOP)
    asking = subprocess.Popen([run_pair.BIN / "uroce", "ctl", "all", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if server < client.process.pid:
            line = asking.stdout.readline()
            check(line.startswith(f"{server} uroce0 ") and asking.poll() is None, line)
        _, error = asking.communicate(timeout=TIMEOUT)
        check(asking.returncode == 0 and f"process {client.process.pid}: no answer within 10 s: is it stopped?" in error, error)
    finally:
        asking.kill()
        client.signal(signal.SIGCONT)


def answer_oddly(listener):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            if connection.recv(100):
                connection.send(b"ok\na\033[31m\nb\n")


def has_odd_name():
    """A process chooses its name, and what it answers: nothing of it controls the terminal."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0uroce-control/{os.stat('/proc/self/ns/pid').st_ino}/{os.getpid()}")
        listener.listen()
        threading.Thread(target=answer_oddly, args=(listener,), daemon=True).start()
        comm = pathlib.Path("/proc/self/comm")
        before = comm.read_text()
        comm.write_text("a\033[31mb")
        _, listed, _ = uroce("ctl")
        comm.write_text(before)
        told = ctl(os.getpid(), "list")
        listener.shutdown(socket.SHUT_RDWR)  # Ends the thread.
    check(f"{os.getpid()} a\\x1b[31mb\n" in listed, listed)
    check(told == "a\\x1b[31m\nb\n", told)


def scenario_control():
    """The next ACK of a server is lost, then nothing passes for a while; its client goes on. Then its QP breaks."""
    with Pair(["--op", "write", "--size", 100, "--iters", 100000000, "--num-qp", 1, "--depth", 1, "--timeout", 12],
              env={"UROCE_CONTROL": "on"}) as pair:
        client, server = pair.client.process.pid, pair.server.process.pid

        def is_listed():
            _, listed, _ = uroce("ctl")
            return f"{client} rdma_client\n" in listed and f"{server} rdma_server\n" in listed

        def goes_on():
            before = counter(client, "sent_pkts")
            wait_until(pair, lambda: counter(client, "sent_pkts") > before + 100, "packets")

        wait_until(pair, is_listed, "both take commands")
        wait_until(pair, lambda: counter(client, "sent_pkts") > 100, "packets")
        before = counter(client, "local_ack_timeout_err")  # A busy machine may have had some.
        check(ctl(server, "lose", "op:ack") == "", "the answer")
        wait_until(pair, lambda: counter(server, "injected_drop") == 1, "the loss")
        wait_until(pair, lambda: counter(client, "local_ack_timeout_err") > before, "the timeout")
        goes_on()
        check(counter(server, "injected_drop") == 1, "one packet was asked for")

        ctl(client, "blackout", "20ms")
        wait_until(pair, lambda: counter(client, "injected_blackout") > 0, "the blackout")
        goes_on()

        check(ctl("all", "list").count(" uroce0 127.0.0.") == 2, "all of them")
        check(ctl(server, "") == ctl(server), "the list")
        status, _, error = uroce("ctl", server, "nonsense")
        check(status == 1 and "there is no command nonsense" in error, error)
        status, _, error = uroce("ctl", os.getpid(), "list")
        check(status == 1 and "takes no commands" in error, error)
        status, _, error = uroce("ctl", 99999999, "list")
        check(status == 2 and "there is no such process" in error, error)
        one_is_stopped(pair.client, server)
        ctl(server, "break", "1st")
        check(pair.finish() == (1, 1), "a QP of theirs broke", pair.client, pair.server)
        cause = pair.server.result()["nic"]["last_cause"]
        check(cause.startswith("QP_FATAL on QP 0x") and ": broken on purpose, " in cause, cause)
    _, listed, _ = uroce("ctl")
    check(f"{server} " not in listed, listed)
    has_odd_name()


def scenario_enable():
    """A login shell finds the NICs after `uroce enable`, and no longer after `uroce disable`; the profile is as it was."""
    with tempfile.TemporaryDirectory() as home:
        profile = pathlib.Path(home, "dotfiles")
        pathlib.Path(home, ".profile").symlink_to(profile)
        before = "A=b\n# the last line"
        profile.write_text(before)
        profile.chmod(0o600)
        environment = {"HOME": home, "PATH": os.environ["PATH"]}

        def run(*command):
            ran = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=30, check=False)
            check(ran.returncode == 0, ran)
            return ran.stdout

        def in_login_shell():
            return run("bash", "-lc", "echo $A $LD_PRELOAD $UROCE_FAULTS")

        program = run_pair.BIN / "uroce"
        run(program, "enable")
        run(program, "enable", "--faults", "loss=1%")
        text = in_login_shell()
        check(text.startswith("b ") and "libibverbs.so.1" in text and text.endswith(" loss=1%\n"), text)
        check(profile.read_text().count("\n") == 3, "one line, however often it is enabled")
        check(profile.stat().st_mode & 0o777 == 0o600 and pathlib.Path(home, ".profile").is_symlink(), "the file is the same")
        run(program, "disable")
        check(profile.read_text() == before + "\n" and in_login_shell() == "b\n", profile.read_text())
        profile.unlink()
        pathlib.Path(home, ".profile").unlink()
        run(program, "enable")
        run(program, "disable")
        run(program, "disable")
        check(not os.listdir(home), os.listdir(home))
        status, _, error = uroce("enable", "--faults", "nonsense")
        check(status == 1 and "UROCE_FAULTS" in error, error)
