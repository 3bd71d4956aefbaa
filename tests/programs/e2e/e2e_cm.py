# SPDX-License-Identifier: Apache-2.0
"""rdma_server --cm and rdma_client --cm: QPs that RDMA CM connects, and no TCP connection at all."""

import ctypes.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import run_pair
from run_pair import Client, Pair, Server, Tool, check, transfer

CM = ["--cm"]


def need_librdmacm():
    if ctypes.util.find_library("rdmacm") is None:
        raise run_pair.Skip("librdmacm is not installed")


def failed(tool, status, *words):
    check(tool.finish() == status, f"status should be {status}", tool)
    error = tool.result()["error"]
    for word in words:
        check(word in error, f"no '{word}' in '{error}'", tool)


def scenario_cm_transfers():
    need_librdmacm()
    for bidir, options in ((False, []), (True, ["--events"])):
        transfer("mixed", iterations=28, qps=8, bidir=bidir, options=CM + options, server_args_extra=CM)
    # The target acknowledges WRITEs over the rsocket. Many QPs, on one address that both share.
    transfer("write", iterations=50, qps=2, options=CM, server_args_extra=CM)
    client, _ = transfer("send", size=100, iterations=4, qps=200, options=CM + ["--mtu", "1024"],
                         server_args_extra=CM, env={"UROCE_ADDR": f"127.77.{os.getpid() % 250 + 1}.1"})
    check(client["workload"]["mtu"] == 1024, client["workload"])


def scenario_cm_one_after_another():
    """The same server serves the next client, one that `uroce run` has started, and one on the other backend: there with
    our library in the place of the system's."""
    need_librdmacm()
    with_library = [run_pair.BIN / "uroce", "run", "--"]
    server = Server(["--cm", "--loop"])
    try:
        for launcher, options in (((), []), (with_library, []), (with_library, ["--backend", "ibverbs"])):
            client = Client(server, ["--cm", "--iters", "5", "--verify", *options], launcher=launcher)
            check(client.finish() == 0 and client.result()["verified"]["wrong_messages"] == 0, "client", client)
    finally:
        server.kill()


def scenario_cm_faults_are_counted_or_named():
    """The second connection is that of the first QP: the first one is for control messages."""
    need_librdmacm()
    with Pair(CM + ["--faults", "cm.disconnect=1s#99,cm.rejected=consumer#2"], server_args=CM) as pair:
        check(pair.client.finish() == 2, "rejected", pair.client)
        result = pair.client.result()
        check("it was rejected with reason 28" in result["error"], result, pair.client)
        nic = result["nic"]
        check(nic["injected_faults"]["cm"] == 1, nic, pair.client)
        check(nic["faults_without_effect"] == ["cm.disconnect=1s#99 met only 1 established connection of this process"],
              nic, pair.client)


def scenario_cm_recorded():
    """A recording has the connection manager's messages as a whole: it tells which QPs REQ and REP have connected."""
    need_librdmacm()
    with tempfile.TemporaryDirectory() as directory:
        broken = ["--iters", "5", "--num-qp", "1", "--timeout", "8", "--op", "write", "--size", "20000", "--faults", "drop=op:write_middle"]
        with Pair(CM + broken, server_args=CM, client_env={"UROCE_RECORD": directory}) as pair:
            check(pair.finish()[0] == 1, pair.client, pair.server)
        told = subprocess.run([str(run_pair.BIN / "uroce"), "explain", directory], capture_output=True, text=True, timeout=30,
                              check=True).stdout
        check("paired by REQ and REP" in told, told)
        check("2 REQs, 2 REPs" in told and "WRONG" not in told, told)


def scenario_cm_starting_together():
    """The client's first request meets no NIC at all, and the second one comes before RDMA CM would repeat it."""
    need_librdmacm()
    address = {"UROCE_ADDR": f"127.78.{os.getpid() % 250 + 1}.1"}
    client = Tool("rdma_client", ["--cm", address["UROCE_ADDR"], "--port", "7700", "--trace", "--lang", "zh", "--json"])
    client.wait_for_line("ibv_query_gid")
    server = Tool("rdma_server", ["--cm", "--port", "7700", "--json"], env=address)
    check((client.finish(), server.finish()) == (0, 0), "started together", client, server)
    check("（去向由 RDMA CM 给出）" in client.stderr and "as RDMA CM says" not in client.stderr, "not in Chinese", client)


def takes_interrupts(pid, thread):
    with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as status:
        blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk:"))
    return blocked & 1 << signal.SIGINT - 1 == 0


def scenario_cm_without_server():
    need_librdmacm()
    server = Server(["--cm"])
    try:
        # A thread of librdmacm that is interrupted may end without the answer that its caller waits for.
        pid = server.process.pid
        takers = [thread for thread in os.listdir(f"/proc/{pid}/task") if takes_interrupts(pid, thread)]
        check(takers == [str(pid)], takers, server)
        # Nobody listens: at another port, or over TCP.
        with socket.create_server(("127.0.0.1", 0)) as other:
            free = str(other.getsockname()[1])
        wrong = [server.address, "--port", free, "--connect-timeout", "0.3", "--json"]
        failed(Tool("rdma_client", ["--cm", *wrong]), 2, "can't connect", "RDMA CM port " + free,
               "is rdma_server --cm running there?")
        failed(Tool("rdma_client", wrong), 2, "TCP port " + free, "is rdma_server running there?")
        if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
            failed(Tool("rdma_client", ["--cm", "--backend", "ibverbs", "127.0.0.1", "--json"]), 2, "no RDMA device")
        failed(Tool("rdma_server", ["--cm", "--gid-index", "0", "--json"]), 2, "--gid-index")
        # What the server does not take, it says over the rsocket.
        client = Client(server, ["--cm", "--size", "64M", "--max-memory", "2G", "--num-qp", "20"])
        failed(client, 2, "the server gave up", "more than --max-memory")
    finally:
        server.kill()


def scenario_cm_without_nic():
    """Nobody can refuse; and nobody has to wait for more than a minute."""
    if shutil.which("rping") is None:
        raise run_pair.Skip("rping is not installed")
    begin = time.monotonic()
    rping = subprocess.run([run_pair.BIN / "uroce", "run", "--", "rping", "-c", "-a", "127.79.0.1", "-C", "1"],
                           capture_output=True, text=True, timeout=30, check=False)
    check(rping.returncode != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in rping.stdout + rping.stderr, str(rping))
    check(time.monotonic() - begin > 4, "a server that is late would not be found")


def scenario_cm_bound():
    """--bind chooses among the addresses of the device: there the server is, with its QPs, and says so."""
    need_librdmacm()
    first, second, other = (f"127.76.{os.getpid() % 250 + 1}.{host}" for host in (1, 2, 3))
    for bind, at in ((second, second), (first, first), ("0.0.0.0", first)):
        server = Server(["--cm", "--addr", f"{first},{second}", "--bind", bind])
        try:
            check(server.address == at, f"it says {server.address}", server)
            client = Client(server, ["--cm", "--verify"])
            check((client.finish(), server.finish()) == (0, 0), f"bound to {bind}", client, server)
            check(server.result()["gid"] == f"::ffff:{at}", server.result(), server)
            check(server.result()["gid_index"] == (2 if at == second else 1), server.result(), server)
        finally:
            server.kill()
    failed(Tool("rdma_server", ["--cm", "--addr", f"{first};{other}", "--bind", other, "--json"]), 2,
           f"uroce0 has no address {other}, only {first}")


def scenario_cm_peers_that_leave():
    need_librdmacm()
    for leave, words in ((signal.SIGINT, "the client gave up: interrupted"), (signal.SIGKILL, "the client is gone")):
        with Pair(["--cm", "--iters", "1000000000", "--trace"], ["--cm", "--trace"]) as pair:
            pair.client.wait_for_line("barrier")
            pair.server.wait_for_line("barrier")
            pair.client.signal(leave)
            pair.client.finish()
            begin = time.monotonic()
            failed(pair.server, 1, words)
            # It hears of a killed one, too (docs/adr/0016). The probe of the transport takes half a second or two.
            check(time.monotonic() - begin < 5, "late", pair.server)
