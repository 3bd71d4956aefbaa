# SPDX-License-Identifier: Apache-2.0
"""Everything that can go wrong ends in one clear sentence and the right status, and in time."""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import run_pair
from run_pair import Client, Pair, Server, Tool, check

ENDLESS = ["--iters", str(10**9)]
# From the first attempt to RETRY_EXC_ERR with the default timeout 14 and retry-cnt 7: eight times 67 ms. A NIC may take
# up to four times as long (IBTA Vol 1, 9.7.6.1.3), a busy machine a little more.
PROMISE = 8 * 4.096e-6 * 2**14
PATIENCE = 4 * PROMISE + 2


def ended(tool, status, *words):
    """The tool has ended with `status` and with a sentence that has all `words` in it."""
    check(tool.finish() == status, f"status should be {status}", tool)
    sentence = "".join(line for line in tool.stderr.splitlines() if line.startswith("rdma_"))
    for word in words:
        check(word in sentence, f"no '{word}' in '{sentence}'", tool)
    return tool.result()


def scenario_ibverbs_without_device():
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        raise run_pair.Skip("this machine has RDMA devices")
    for tool in (Tool("rdma_server", ["--backend", "ibverbs", "--json"]),
                 Tool("rdma_client", ["127.0.0.1", "--json"], env={"UROCE_BACKEND": "ibverbs"})):
        result = ended(tool, 2, "--backend uroce")
        check(result["backend"] == "ibverbs" and not result["ok"], result, tool)
    tool = Tool("rdma_server", ["--backend", "ibverbs", "--pcap", "x.pcap", "--json"])
    ended(tool, 2, "--pcap needs --backend uroce")


def scenario_usage():
    for arguments in ([], ["127.0.0.1", "--num-qp", "0"], ["127.0.0.1", "--op", "teleport"], ["127.0.0.1", "--sise", "3"]):
        tool = Tool("rdma_client", arguments)
        check(tool.finish() == 2 and tool.stderr and not tool.stdout, "usage", tool)
    ended(Tool("rdma_client", ["127.0.0.1", "--sise", "3", "--json"]), 2, "--sise", "--help")
    ended(Tool("rdma_client", ["--json"]), 2, "which server?", "rdma_client HOST")
    for name in ("rdma_client", "rdma_server"):
        tool = Tool(name, ["--version"])
        check(tool.finish() == 0 and re.match(name + r" \d+\.\d+\.\d+", tool.stdout), "--version", tool)


def scenario_bad_device():
    result = ended(Tool("rdma_server", ["--device", "mlx5_7", "--json"]), 2, "no device 'mlx5_7'", "uroce0")
    check(result["device"] is None and result["gid"] is None, result)
    ended(Tool("rdma_client", ["127.0.0.1", "18515", "--json"]), 2, "no device '18515'", "device port gid-index num-qp")
    ended(Tool("rdma_server", ["--ib-port", "2", "--json"]), 2, "no port 2")


def scenario_bad_gid_index():
    ended(Tool("rdma_server", ["--gid-index", "99", "--json"]), 2, "GID index 99", "usable:", "1 = ")
    ended(Tool("rdma_server", ["--gid-index", "-1", "--json"]), 2, "'-1' is not a number from 0 to 255")


def scenario_report_that_cannot_be_written():
    """A result that is lost is a failure, also when the transfer went well."""
    server = Server()
    try:
        with open("/dev/full", "w") as full:
            client = subprocess.run([run_pair.BIN / "rdma_client", "127.0.0.1", "--port", str(server.port)], stdout=full,
                                    stderr=subprocess.PIPE, text=True, check=False)
        check(client.returncode == 1 and "can't write the result to stdout: No space" in client.stderr, client, server)
        check(server.finish() == 0, "the server", server)
    finally:
        server.kill()


def scenario_fault_without_effect():
    """A condition that no packet has met is said so, with where such packets are."""
    fault = "drop=op:read_response_last#1"
    with Pair(["--op", "read", "--faults", fault]) as pair:
        check(pair.finish() == (0, 0), "transfer", pair.client, pair.server)
        sentence = f"{fault} met no packet that this side sent; for packets that it receives: rx.{fault}"
        check(pair.client.result()["nic"]["faults_without_effect"] == [sentence], pair.client.result(), pair.client)
    with Pair(["--op", "read", "--faults", "rx." + fault]) as pair:
        check(pair.finish() == (0, 0), "transfer", pair.client, pair.server)
        nic = pair.client.result()["nic"]
        check(nic["injected_faults"]["drop"] == 1 and not nic["faults_without_effect"], nic, pair.client)


def scenario_failed_call():
    """A call that fails because of a fault is counted, in the summary for people and for programs."""
    fault = ["--faults", "call=ibv_post_send#3:ENOMEM"]
    for extra in ([], ["--json"]):
        server = Server()
        client = Client(server, fault, extra=extra)
        try:
            check(client.finish() == 1, "it fails", client)
            if extra:
                check(client.result()["nic"]["injected_faults"]["call"] == 1, client)
            else:
                check("  injected   1 failed call\n" in client.stdout, client)
        finally:
            server.kill()


def scenario_port_in_use():
    server = Server()
    try:
        ended(Tool("rdma_server", ["--port", server.port, "--json"]), 2, f"TCP port {server.port} is in use")
    finally:
        server.kill()


def scenario_unreachable_server():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: refused, and nobody else gets the port
        ended(Tool("rdma_client", ["127.0.0.1", "--port", unused.getsockname()[1], "--json", "--connect-timeout", "0.3"]),
              2, "can't connect", "refused", "rdma_server")
    ended(Tool("rdma_client", ["no.such.host.invalid", "--json"]), 2, "can't resolve")


def scenario_foreign_peer():
    """A peer that is no rdma_server, and one that is no rdma_client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)
        thread = threading.Thread(target=answer)
        thread.start()
        ended(Tool("rdma_client", ["127.0.0.1", "--port", listener.getsockname()[1], "--json"]), 2, "does not speak our protocol")
        thread.join()
    server = Server()
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(os.urandom(4096))
            ended(server, 2, "does not speak our protocol")
    finally:
        server.kill()
    server = Server()
    try:
        socket.create_connection(("127.0.0.1", server.port)).close()
        ended(server, 2, "closed the connection")
    finally:
        server.kill()


def scenario_more_qps_than_the_server_takes():
    with Pair(["--num-qp", "8"], ["--num-qp", "4"]) as pair:
        ended(pair.client, 2, "the server takes 4 QPs at most", "we want 8", "--num-qp")
        ended(pair.server, 2, "the client wants 8 QPs", "we take 4 at most", "--num-qp")


def scenario_refused_workloads():
    for arguments, words in ((["--size", "64M", "--num-qp", "256"], ["--max-memory"]),
                             (["--sges", "32", "--size", "100", "--inline", "--mtu", "4096", "--op", "send"], [])):
        with Pair(arguments, ["--num-qp", "256"] if "256" in arguments else []) as pair:
            if words:
                ended(pair.client, 2, *words)
                ended(pair.server, 2, "the client gave up", *words)
            else:
                check(pair.finish() == (0, 0), arguments, pair.client, pair.server)
    with Pair(["--inline", "--size", "1M"]) as pair:
        ended(pair.client, 2, "can't create QP", "inline")
        ended(pair.server, 2, "the client gave up")


def endless(arguments=(), server_args=()):
    """A pair in the middle of a transfer that does not end by itself."""
    pair = Pair([*ENDLESS, "--size", "8192", "--trace", *arguments], ["--trace", *server_args])
    try:
        pair.client.wait_for_line("barrier")
        pair.server.wait_for_line("barrier")
    except BaseException:
        pair.__exit__()
        raise
    return pair


def check_loss(result, probed, tool):
    loss = result["peer_loss"]
    check(loss["probed"] == probed, loss, tool)
    check(loss["status"] == "RETRY_EXC_ERR", loss, tool)
    check(abs(loss["promised_seconds"] - PROMISE) < 0.001, loss, tool)
    check(loss["seconds"] <= PATIENCE, loss, tool)
    return loss["seconds"]


def scenario_server_killed():
    """The client's outstanding operations end with RETRY_EXC_ERR."""
    for op in ("send", "write", "read", "mixed"):
        with endless(["--op", op]) as pair:
            pair.server.signal(signal.SIGKILL)
            result = ended(pair.client, 1, "the server is gone", "RETRY_EXC_ERR", "timeout 14 and retry-cnt 7 promise 0.54 s")
            check_loss(result, False, pair.client)


def scenario_client_killed():
    """A server with nothing outstanding asks the transport by a zero-length WRITE."""
    for op in ("send", "write", "read"):
        with endless(["--op", op]) as pair:
            pair.client.signal(signal.SIGKILL)
            result = ended(pair.server, 1, "the client is gone", "zero-length RDMA WRITE", "RETRY_EXC_ERR", "promise 0.54 s")
            check(check_loss(result, True, pair.server) >= 0.9 * PROMISE, result, pair.server)


def scenario_killed_while_sleeping():
    """The same when both sides wait for completion events."""
    with endless(["--op", "send", "--events"]) as pair:
        pair.client.signal(signal.SIGKILL)
        check_loss(ended(pair.server, 1, "the client is gone"), True, pair.server)
    with endless(["--op", "send", "--events", "--bidir"]) as pair:
        pair.server.signal(signal.SIGKILL)
        check_loss(ended(pair.client, 1, "the server is gone"), False, pair.client)


def scenario_server_frozen():
    """A peer that stops without ending: the transport tells, after what timeout and retry-cnt promise."""
    with endless(["--op", "write", "--timeout", "12", "--retry-cnt", "3"]) as pair:
        pair.server.signal(signal.SIGSTOP)
        try:
            ended(pair.client, 1, "failed with RETRY_EXC_ERR", "timeout 12 and retry-cnt 3 promise 0.07 s")
        finally:
            pair.server.signal(signal.SIGCONT)
        ended(pair.server, 1, "the client gave up", "RETRY_EXC_ERR")


def scenario_client_paused():
    """A client that is stopped for longer than its timeout, as by a debugger: what the server has answered counts."""
    with endless(["--op", "write", "--num-qp", "200", "--depth", "1", "--timeout", "15", "--retry-cnt", "0"]) as pair:
        for _ in range(5):
            pair.client.signal(signal.SIGSTOP)
            time.sleep(0.2)
            pair.client.signal(signal.SIGCONT)
            time.sleep(0.02)
        pair.client.signal(signal.SIGINT)
        ended(pair.client, 130, "interrupted")


def scenario_interrupted():
    """Ctrl-C on either side, in a transfer and while waiting for a client."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with endless(["--op", "mixed", "--verify"]) as pair:
            pair.client.signal(number)
            ended(pair.client, 130, "interrupted")
            ended(pair.server, 1, "the client gave up: interrupted")
    with endless(["--op", "send", "--events"]) as pair:
        pair.server.signal(signal.SIGINT)
        ended(pair.server, 130, "interrupted")
        ended(pair.client, 1, "the server gave up: interrupted")
    server = Server(launcher=["nohup"])
    server.signal(signal.SIGHUP)
    server.signal(signal.SIGINT)
    result = ended(server, 130, "interrupted (SIGINT)")
    check(result["device"] == "uroce0" and result["gid"] and result["nic"] and result["peer"] is None, result, server)


def scenario_client_that_says_nothing():
    """With --loop it does not keep the next client waiting for longer than that one waits."""
    server = Server(["--loop"])
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            check(Client(server).finish() == 0, "the next client", server)
        check("did not send its greeting within 10 s" in server.stderr and "busy" not in server.stderr, "why", server)
    finally:
        server.kill()


def scenario_client_refused_while_busy():
    """A server without --loop takes one client; the second is refused at once, and the first not disturbed."""
    with endless(["--op", "send"]) as pair:
        second = Client(pair.server, ["--connect-timeout", "0.1"])
        ended(second, 2, "can't connect")
        pair.client.signal(signal.SIGINT)
        ended(pair.client, 130, "interrupted")


FIRE = "loss=5%,dup=2%,reorder=5%:4,corrupt=1%"


def scenario_under_fire():
    """16 QPs on a bad wire, in both directions: all data arrives, and the faults did happen."""
    with Pair(["--num-qp", "16", "--op", "mixed", "--size", "20000", "--iters", "50", "--verify", "--faults", FIRE],
              ["--num-qp", "16", "--faults", "seed=2," + FIRE]) as pair:
        check(pair.finish() == (0, 0), "a bad wire", pair.client, pair.server)
        for tool in (pair.client, pair.server):
            result = tool.result()
            check(result["verified"]["wrong_messages"] == 0, result["verified"], tool)
            faults = result["nic"]["injected_faults"]
            for kind in ("drop", "dup", "reorder", "corrupt"):
                check(faults[kind] > 0, f"no {kind} was injected: {faults}", tool)
            check(result["nic"]["counters"]["icrc_errors"] > 0, "no corruption was found", tool)


def injected_of_example(client_args=(), server_args=()):
    """Runs the example of README. What its faults did."""
    with Pair(["--op", "mixed", "--verify", "--faults", FIRE, *client_args], server_args) as pair:
        check(pair.finish() == (0, 0), "a bad wire", pair.client, pair.server)
        return pair.client.result()["nic"]["injected_faults"]


def scenario_faults_repeat():
    """README's example, three times: QP numbers and PSNs are others each time, and the faults the same."""
    runs = [injected_of_example() for _ in range(3)]
    check(runs[0]["drop"] > 1000 and runs[0] == runs[1] == runs[2], f"not the same: {runs}")


def scenario_fault_lists_repeat(directory="."):
    """With --seed the numbers are the same as well: every packet that a fault touched, by number, is on every run's list."""
    if not shutil.which("tshark"):
        raise run_pair.Skip("needs tshark")
    lists = []
    for run in range(3):
        file = os.path.join(directory, f"e2e_fault_lists_repeat_{run}.pcapng")
        try:
            injected_of_example(["--size", "10000", "--iters", "100", "--seed", "7", "--pcap", file], ["--seed", "8"])
            fields = ["infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode", "frame.comment"]
            lines = subprocess.run(["tshark", "-n", "-r", file, "-Y", "frame.comment", "-T", "fields", "-E", "aggregator=;",
                                    *(word for field in fields for word in ("-e", field))],
                                   capture_output=True, text=True, check=True).stdout.splitlines()
            # What the NIC does then depends on time. It says so at the end of a comment, and may say several things.
            lines = [re.sub(r"(; )?NIC: .*", "", line) for line in lines]
            lists.append(sorted(re.sub(r", \d+ us late$", "", line) for line in lines if not line.endswith("\t")))
        finally:
            if os.path.exists(file):
                os.unlink(file)
    check(len(lists[0]) > 100, lists[0])
    for other in lists[1:]:
        check(other == lists[0], f"only once: {sorted(set(lists[0]) ^ set(other))}")


def scenario_lost_for_ever():
    """Nothing passes: RETRY_EXC_ERR, in the time that timeout and retry-cnt promise."""
    with Pair(["--num-qp", "1", "--op", "write", "--faults", "loss=100%"], ["--num-qp", "1"]) as pair:
        # The NIC says the cause in its own words.
        result = ended(pair.client, 1, "RETRY_EXC_ERR", "promise 0.54 s", ": 8 transmissions of PSN 0x",
                       "no answer: the peer 127.0.0.", "was not heard; faults on purpose")
        check("8 transmissions" in result["nic"]["last_cause"], result["nic"], pair.client)
        took = float(re.search(r"failed with RETRY_EXC_ERR \([^)]*\) ([0-9.]+) s after", pair.client.stderr).group(1))
        check(0.99 * PROMISE <= took <= PATIENCE, f"it took {took} s", pair.client)
        check(result["nic"]["injected_faults"]["drop"] > 0, result["nic"], pair.client)


def scenario_faults_in_capture(directory="."):
    """A pcapng file has every packet that a fault touched, the lost ones too, and says what was done to it."""
    if not shutil.which("tshark"):
        raise run_pair.Skip("needs tshark")
    file = os.path.join(directory, "e2e_faults_in_capture.pcapng")
    expected = {"dropped by drop=op:write_only#1..3": 3, "dropped by rx.drop=op:ack#2": 1,
                "duplicated by dup=op:send_only#2": 2, "corrupted by corrupt=op:read_request#1": 1,
                "marked CE by ecn=op:read_request#3": 1, "delayed by delay=2ms@op:compare_swap#1": 1,
                "held back by reorder=op:fetch_add:2#1": 1}
    faults = [text.split(" by ")[1] for text in expected]
    try:
        with Pair(["--num-qp", "1", "--op", "mixed", "--size", "1000", "--iters", "70", "--verify", "--pcap", file,
                   "--faults", ",".join(faults)], ["--num-qp", "1"]) as pair:
            check(pair.finish() == (0, 0), "a bad wire", pair.client, pair.server)
            injected = pair.client.result()["nic"]["injected_faults"]
            counts = {kind: injected[kind] for kind in ("drop", "dup", "corrupt", "ecn", "delay", "reorder")}
            check(counts == {"drop": 4, "dup": 1, "corrupt": 1, "ecn": 1, "delay": 1, "reorder": 1}, counts, pair.client)
        lines = subprocess.run(["tshark", "-n", "-r", file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        # What was lost is sent again, and the NIC says why.
        check(any("NIC: sent again because of " in line for line in lines), lines)
        lines = [line.split("; NIC: ")[0] for line in lines if not line.startswith("NIC: ")]
        # No bound: what is held back when the transfer ends goes out at once.
        check(any(re.fullmatch(r"uroce: delayed by .*, \d+ us late", line) for line in lines), lines)
        said = collections.Counter(re.sub(r", \d+ us late$", "", line).removeprefix("uroce: ") for line in lines)
        check(said == expected, f"the capture says {said}")
    finally:
        if os.path.exists(file):
            os.unlink(file)


def scenario_bad_faults():
    tool = Tool("rdma_client", ["127.0.0.1", "--faults", "los=1%"])
    check(tool.finish() == 2, "status should be 2", tool)
    check("'los=1%': there is no such fault" in tool.stderr, "no explanation", tool)
    tool = Tool("rdma_client", ["127.0.0.1", "--backend", "ibverbs", "--faults", "loss=1%", "--json"])
    ended(tool, 2, "--faults needs --backend uroce")
