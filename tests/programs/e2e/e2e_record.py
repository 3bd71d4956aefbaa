# SPDX-License-Identifier: Apache-2.0
"""Flight recorders: what `uroce explain DIR` says after something broke, and how one looks into running programs."""

import json
import os
import pwd
import re
import signal
import subprocess
import tempfile
import time

import run_pair
from run_pair import Pair, Server, check


def uroce(*arguments):
    ran = subprocess.run([str(run_pair.BIN / "uroce"), *map(str, arguments)], capture_output=True, text=True, timeout=30,
                         check=False)
    return ran.returncode, ran.stdout, ran.stderr


def scenario_record():
    """The peer answers nothing: the first sentence says so; a killed process leaves what it remembers; on demand."""
    with tempfile.TemporaryDirectory() as directory:
        env = {"UROCE_RECORD": directory}
        with Pair(["--op", "write", "--size", 3000, "--iters", 20, "--num-qp", 1, "--timeout", 8],
                  ["--faults", "drop=op:ack"], client_env=env) as pair:
            status = pair.finish()
            check(status == (1, 1), status, pair.client, pair.server)
        status, told, _ = uroce("explain", directory)
        check(status == 0, told)
        first = told.splitlines()[0]
        check(first.startswith("RETRY_EXC_ERR on QP 0x"), told)
        check(": 8 transmissions of PSN 0x" in first and "no answer: the peer 127.0.0." in first, told)
        check("because of a timeout" in told and "probably because" not in told, told)
        with tempfile.TemporaryDirectory() as other:
            server = Server(["--num-qp", 1], env={"UROCE_RECORD": other})
            try:
                status, told, error = uroce("record", server.process.pid, "--dir", os.path.join(other, "now"))
                check(status == 0 and "events and" in told, told, error)
                check(len(os.listdir(os.path.join(other, "now"))) == 2, os.listdir(other))
            finally:
                server.kill()
            status, told, _ = uroce("explain", other)
            check(status == 0 and told.startswith("Recorded: the process ended without closing its NIC"), told)
            check(not [name for name in os.listdir(other) if name.endswith(".ring")], os.listdir(other))
        status, _, error = uroce("record", os.getpid())
        check(status == 1 and "has no NIC" in error, error)
    # Below /dev, where programs are shown files of ours: what the library itself writes there is real.
    with tempfile.TemporaryDirectory(prefix="uroce-", dir="/dev/shm") as shared:
        env = os.environ | {"UROCE_RECORD": shared, "UROCE_PCAP": os.path.join(shared, "uroce.pcapng")}
        ran = subprocess.run([str(run_pair.BIN / "uroce"), "run", "--", "ibv_devinfo", "-d", "uroce0"], env=env,
                             capture_output=True, text=True, timeout=30, check=False)
        check(ran.returncode == 0 and "PORT_ACTIVE" in ran.stdout, ran)
        check(os.path.getsize(env["UROCE_PCAP"]) > 0, os.listdir(shared))


def scenario_device_fatal():
    """A NIC that a fault stops: the report and the recording say so, and when."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = ["--op", "write", "--iters", 1000000000, "--num-qp", 1, "--faults", "device_fatal=300ms"]
        with Pair(arguments, client_env={"UROCE_RECORD": directory}) as pair:
            check(pair.finish() == (1, 1), pair.client, pair.server)
            cause = pair.client.result()["nic"]["last_cause"]
            check(cause == "DEVICE_FATAL: a fault (device_fatal=) has stopped the NIC; verbs return EIO", cause)
            check(cause in pair.client.stderr, pair.client)
        status, told, error = uroce("explain", "--json", directory)
        check(status == 0, told, error)
        (said,) = json.loads(told)["causes"]
        check(said["cause"] == cause and abs(said["time_ns"] / 1e9 - time.time()) < 60, said)


def scenario_closed_port():
    """The peer is killed: the cause says that nobody has its port any more; of a peer that is stopped it does not.
    Its address is one that no other program takes when it is free."""
    for kind, closed in ((signal.SIGKILL, True), (signal.SIGSTOP, False)):
        with tempfile.TemporaryDirectory() as directory:
            arguments = ["--op", "write", "--size", 3000, "--iters", 1000000, "--num-qp", 1, "--timeout", 14]
            with Pair(arguments, ["--addr", "127.0.47.91"], client_env={"UROCE_RECORD": directory}) as pair:
                pid = pair.client.process.pid
                while "received_packets" not in uroce("qp", "--json", pid)[1] or '"received_packets": 0,' in uroce("qp", "--json", pid)[1]:
                    check(pair.client.process.poll() is None, "the client has ended", pair.client)
                pair.server.signal(kind)
                check(pair.client.finish() == 1, pair.client)
            status, told, _ = uroce("explain", directory)
            first = told.splitlines()[0]
            check(status == 0 and first.startswith("RETRY_EXC_ERR on QP 0x"), told)
            check(first.endswith("; port 4791 there is closed") == closed, first)


def scenario_qp_of_none():
    """A process that has a NIC and no QP lacks none that was asked for."""
    server = Server(["--addr", "127.0.0.1"])
    try:
        pid = server.process.pid
        for name, words in ((pid, "has no QP"), (f"{pid}/0x11", "has no such QP")):
            status, text, error = uroce("qp", name)
            check(status == 1 and error == f"uroce: process {pid} {words}\n", text, error)
    finally:
        server.kill()


def scenario_live():
    """A client whose peer is stopped: top and qp tell what it waits for, and neither process notices."""
    with Pair(["--op", "write", "--size", 3000, "--iters", 1000000, "--num-qp", 1, "--timeout", 20], env={"UROCE_RECORD": ""}) as pair:
        pid = pair.client.process.pid

        def qps():
            status, text, error = uroce("top", "--json", "--interval", 0.05)
            check(status in (0, 1), text, error)  # 1: no NIC is open yet.
            document = json.loads(text)
            check(document["schema"] == "uroce-top-1", text)
            return [qp for nic in document["nics"] if nic["pid"] == pid for qp in nic["qps"]]

        while not any(qp["per_second"]["sent_packets"] > 0 for qp in qps()):
            check(pair.client.process.poll() is None, "the client has ended", pair.client)
        pair.server.signal(signal.SIGSTOP)
        while any(qp["per_second"]["received_packets"] > 0 for qp in qps()):
            check(pair.client.process.poll() is None, "the client has ended", pair.client)
        (qp,) = qps()
        check(qp["state"] == "RTS" and qp["type"] == "RC", qp)
        check(qp["requester"]["outstanding_packets"] > 0 and qp["requester"]["queued_sends"] > 0, qp)
        check(qp["window"]["limit_bytes"] > 0, qp)
        check(0 < qp["timers_ns"]["ack"] < 5e9, qp)
        status, text, error = uroce("qp", f"{pid}/{qp['qpn']:#x}")
        check(status == 0 and text.startswith(f"QP {qp['qpn']:#x}, RC, RTS; rdma_client[{pid}]"), text, error)
        # Both numbers are true, also when more is under way than the limit.
        window = [line for line in text.splitlines() if line.startswith("  window ")]
        check(len(window) == 1 and re.fullmatch(r"  window +\d+ bytes under way, of all QPs to this peer; from \d+ on, packets wait",
                                                window[0]), text)
        check("timer       ack: due in " in text and f"state qpn={qp['qpn']:#x} from=RTR to=RTS" in text, text)
        status, text, _ = uroce("qp", "--json", pid)
        check(status == 0 and json.loads(text)[0]["counts"]["sent_packets"] > 0, text)
        check(json.loads(text)[0]["user"] == pwd.getpwuid(os.getuid()).pw_name, text)
        status, text, _ = uroce("top", "--once", "--interval", 0.05)
        user = pwd.getpwuid(os.getuid()).pw_name
        check(status == 0 and re.search(rf"^ *{pid} {user} +rdma_client .* {qp['qpn']:#x} ", text, re.MULTILINE), text)
        status, _, error = uroce("top", "--once", "--interval", "nan")
        check(status == 2 and "--interval: 'nan' is not a number from 0.01 to 3600" in error, error)
        pair.server.signal(signal.SIGCONT)
        before = qp["counts"]["sent_packets"]
        while qps()[0]["counts"]["sent_packets"] == before:
            check(pair.client.process.poll() is None, "the client has ended", pair.client)
    status, _, error = uroce("qp", f"{pid}/0x11")
    check(status == 1 and "has no NIC" in error, error)
    status, _, error = uroce("qp", "x/y")
    check(status == 2 and "is no QP of a process" in error, error)


def scenario_live_name():
    """A process chooses its name: top and qp print nothing of it that a terminal would obey."""
    launcher = ["bash", "-c", 'exec -a "$0" "$@"', "two\nlines\x1b[31m中\u009b"]
    with Pair(["--op", "write", "--iters", 1000000000, "--num-qp", 1], launcher=launcher) as pair:
        pid, text = pair.client.process.pid, ""
        while str(pid) not in text:
            check(pair.client.process.poll() is None, "the client has ended", pair.client)
            _, text, _ = uroce("top", "--once", "--interval", 0.05)
        _, details, error = uroce("qp", pid)
        for said in (text, details):
            check(r"two\x0alines\x1b[31m中\xc2\x9b" in said, ascii(said), error)
            check("\x1b" not in said and "\u009b" not in said, ascii(said), error)


def scenario_explain_own_run():
    """--explain: the summary, then the story of the run, with the NIC's own reasons; nothing is left behind."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = ["--op", "write", "--size", 3000, "--iters", 20, "--num-qp", 1, "--explain", "--faults",
                     "drop=op:write_only#3"]
        server = Server(["--num-qp", 1])
        try:
            client = run_pair.Client(server, arguments, env={"TMPDIR": directory}, extra=())
            check(client.finish() == 0, client)
            check(server.finish() == 0, server)
            summary, _, story = client.stdout.partition("\n\n")
            check(summary.startswith("ok: ") and "1 dropped" in summary, summary)
            check("capture " not in summary, summary)
            check("20 RDMA WRITEs of 3000 bytes, completed" in story and "sent again: " in story, story)
            check(not os.listdir(directory), os.listdir(directory))
        finally:
            server.kill()


def scenario_explain_own_capture():
    """--explain tells about the file of --pcap or UROCE_PCAP, also one to append to, and refuses a FIFO at once."""
    with tempfile.TemporaryDirectory() as directory:
        capture, fifo = os.path.join(directory, "run.pcapng"), os.path.join(directory, "fifo")
        server = Server(["--loop"])
        try:
            for arguments, env in (((), {"UROCE_PCAP": capture}), (("--pcap", ">>" + capture), {})):
                size = os.path.getsize(capture) if os.path.exists(capture) else 0
                client = run_pair.Client(server, ["--explain", *arguments], env=env, extra=())
                check(client.finish() == 0, client)
                check("  capture    " in client.stdout and "\n\nconnection 1, RC" in client.stdout, client.stdout, client)
                check(os.path.getsize(capture) > size, "nothing captured", client)
            client = run_pair.Client(server, ["--explain", "--pcap", capture, "--device", "none"], extra=())
            check(client.finish(10) == 2 and "connection 1" not in client.stdout, "the story of an earlier run", client)
            os.mkfifo(fifo)
            for arguments, env in (((), {"UROCE_PCAP": fifo}), (("--pcap", fifo), {})):
                client = run_pair.Client(server, ["--explain", *arguments], env=env, extra=())
                check(client.finish(10) == 2 and fifo + " is no regular file" in client.stderr, client)
            client = run_pair.Client(server, ["--explain", "--pcap", "-"], extra=())
            check(client.finish(10) == 2 and "- is no file" in client.stderr and not client.stdout, client)
        finally:
            server.kill()


def wait_for_packets(directory):
    """Until a capture there has some."""
    deadline = time.monotonic() + run_pair.TIMEOUT
    while not any(entry.stat().st_size > 64 * 1024 for entry in os.scandir(directory)):
        check(time.monotonic() < deadline, "no packet is captured")
        time.sleep(0.005)


def scenario_explain_interrupted():
    """When the terminal closes, the story is told as after ^C, and nothing is left behind."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server([], {"TMPDIR": directory}, extra=("--explain",))
        client = run_pair.Client(server, ["--iters", 1_000_000_000])
        try:
            wait_for_packets(directory)
            server.signal(signal.SIGHUP)
            check(server.finish() == 130 and "\n\nconnection 1, RC" in server.stdout, server.stdout, server)
            check(not os.listdir(directory), os.listdir(directory))
        finally:
            client.kill()
            server.kill()


def scenario_explain_on_a_full_disk():
    """A story that is cut is a failure, also when the transfer went well. The summary fits into the only page."""
    run_pair.need_namespaces()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/mnt"], check=True)
    server = Server(["--loop"])
    try:
        with open("/mnt/out", "w+", encoding="utf-8") as out:
            client = subprocess.run([run_pair.BIN / "rdma_client", "127.0.0.1", "--port", str(server.port), "--num-qp", "32",
                                     "--iters", "20", "--explain"], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
            out.seek(0)
            check(out.read().startswith("ok: "), client)
        check(client.returncode == 1 and "can't write the story to stdout" in client.stderr, client)
    finally:
        server.kill()
