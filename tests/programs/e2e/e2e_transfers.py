# SPDX-License-Identifier: Apache-2.0
"""Transfers that must succeed: every operation, size, MTU and number of QPs, on every engine."""

import os
import re
import subprocess
import sys

import run_pair
from run_pair import OPS, Client, Pair, Server, Skip, check, need_namespaces, transfer


def scenario_queue_pairs():
    for qps in (1, 4, 16, 256):
        transfer(qps=qps, size=3000, iterations=14 if qps < 256 else 7)


def scenario_many_queue_pairs():
    """The largest number of QPs, with little to do for each."""
    transfer(qps=1024, size=64, iterations=2, options=["--depth", "2"])


def scenario_sizes():
    """Around nothing, around one packet, and many packets; each operation that has a size."""
    mtu = 1024
    for op in ("send", "send-imm", "write", "write-imm", "read"):
        for size in (0, 1, mtu - 1, mtu, mtu + 1):
            transfer(op, size, iterations=5, qps=2, options=["--mtu", mtu])


def scenario_megabyte():
    for op in ("send", "write", "read"):
        transfer(op, 1 << 20, iterations=6, qps=2, options=["--mtu", 4096])


def scenario_largest():
    """64 MiB: memory is bounded, and says so."""
    for op in ("send", "write", "read"):
        transfer(op, 64 << 20, iterations=2, qps=1, options=["--mtu", 4096])
    with Pair(["--op", "write", "--size", "64M", "--iters", "9", "--num-qp", "1", "--max-memory", "128M", "--verify"],
              ["--num-qp", "1"]) as pair:
        check(pair.finish() == (0, 0), "64 MiB in 128 MiB", pair.client, pair.server)
        result = pair.client.result()
        check(result["workload"]["depth"] == 2, result["workload"], pair.client)
        check("depth reduced from 32 to 2" in result["notes"][0], result, pair.client)


def scenario_mtus():
    for mtu in (256, 512, 1024, 2048, 4096):
        client, _ = transfer(size=10000, qps=2, options=["--mtu", mtu])
        check(client["workload"]["mtu"] == mtu, client["workload"])


def scenario_operations():
    for op in OPS + ("mixed",):
        transfer(op, iterations=200, qps=3)


def scenario_unverified():
    for op in OPS + ("mixed",):
        transfer(op, iterations=50, qps=3, verify=False)


def scenario_bidirectional():
    for op in ("send", "write", "read", "mixed"):
        transfer(op, size=5000, iterations=70, qps=4, bidir=True)


def scenario_events():
    transfer("mixed", iterations=70, options=["--events"])
    transfer("send", iterations=50, options=["--events"], bidir=True)
    transfer("read", iterations=50, options=["--events", "--depth", "1"])


def scenario_inline_and_sges():
    transfer("mixed", size=200, iterations=70, options=["--inline"])
    transfer("mixed", size=5001, iterations=70, options=["--sges", "3"])
    transfer("send", size=3, iterations=20, options=["--sges", "8"])
    transfer("mixed", size=100, iterations=28, options=["--sges", "4", "--inline"], bidir=True)


def scenario_depth_one():
    """One operation at a time: nothing hides behind pipelining."""
    transfer("mixed", iterations=70, qps=2, options=["--depth", "1"])


def scenario_rd_atomic_limits():
    transfer("read", size=9000, iterations=60, qps=2, options=["--rd-atomic", "1"])
    transfer("mixed", iterations=70, qps=2, server_args_extra=["--rd-atomic", "2"])


def check_engine(env, launcher, name, reason):
    client, server = transfer("mixed", size=5000, iterations=70, env=env, launcher=launcher)
    for result in (client, server):
        engine = result["nic"]["engine"]
        check(engine["name"] == name, f"engine {engine}")
        check(reason in engine["reason"], f"engine {engine}")


def scenario_socket_engine():
    check_engine({"UROCE_ENGINE": "socket"}, (), "socket", "UROCE_ENGINE")


def scenario_without_io_uring():
    """As in a container whose seccomp profile denies io_uring: it works all the same, and says why it is slower."""
    launcher = [run_pair.BIN / "deny_io_uring"]
    if subprocess.run([*launcher, "true"], check=False).returncode == 77:
        raise Skip("seccomp is not available")
    check_engine({}, launcher, "socket", "EPERM")


def scenario_ibverbs_backend():
    """The same transfers through a libibverbs.so.1 that is opened at run time: ours, in place of the system's."""
    library = run_pair.BIN.parent / "lib" / "libibverbs.so.1"
    if not library.exists():
        raise Skip(f"{library} has not been built")
    path = {"LD_LIBRARY_PATH": str(library.parent)}
    plain = ["--num-qp", "4", "--iters", "70", "--op", "mixed", "--verify", "--bidir"]
    for server_backend in ("ibverbs", "uroce"):
        with Pair([*plain, "--backend", "ibverbs"], ["--backend", server_backend], env=path) as pair:
            check(pair.finish() == (0, 0), "through libibverbs.so.1", pair.client, pair.server)
            result = pair.client.result()
            check(result["backend"] == "ibverbs" and "nic" not in result, result, pair.client)
            check(result["verified"]["wrong_messages"] == 0 and result["peer_verified"]["messages"] > 0, result)


def scenario_starting_together():
    """A client that is started before its server waits for it."""
    first = Server()
    first.kill()
    client = Client(first, ["--iters", "10", "--connect-timeout", "30"])
    server = run_pair.Tool("rdma_server", ["--port", first.port, "--json"])
    try:
        check(client.finish() == 0 and server.finish() == 0, "started together", client, server)
    finally:
        client.kill()
        server.kill()


def scenario_several_pairs():
    """Three servers and three clients at once on one host: each NIC has its own address."""
    pairs = []
    try:
        for _ in range(3):
            pairs.append(Pair(["--op", "mixed", "--iters", "70", "--size", "4096", "--verify"]))
        gids = set()
        for pair in pairs:
            check(pair.finish() == (0, 0), "one of several pairs failed", pair.client, pair.server)
            gids |= {pair.client.result()["gid"], pair.server.result()["gid"]}
        # A NIC that came last may have got the address of one that has already gone.
        check(len(gids) >= 2, f"GIDs {gids}")
    finally:
        for pair in pairs:
            pair.__exit__()


def scenario_server_takes_the_clients_qps():
    """The client says how many QPs there are, as it says the rest of the workload."""
    server = Server(["--loop"])
    try:
        for qps in (1, 16, 3):
            client = Client(server, ["--num-qp", qps, "--op", "read", "--iters", "10", "--verify"])
            check(client.finish() == 0, f"{qps} QPs", client, server)
            check(client.result()["workload"]["num_qp"] == qps, client.result(), client)
    finally:
        server.kill()


def scenario_loop():
    """One server serves one client after the other, and reports on each."""
    server = Server(["--loop"])
    try:
        for op in ("send", "read"):
            client = Client(server, ["--op", op, "--iters", "20", "--verify"])
            check(client.finish() == 0, "client of a looping server", client, server)
        client = Client(server, ["--sges", "16", "--size", "1M", "--num-qp", "1024", "--depth", "1", "--max-memory", "4G"])
        check(client.finish() == 2, "a client that asks for too much", client, server)
        client = Client(server, ["--op", "write", "--iters", "20", "--verify"])
        check(client.finish() == 0, "the client after it", client, server)
        server.signal(run_pair.signal.SIGINT)
        check(server.finish() == 130, "status of a looping server after Ctrl-C", server)
        check(server.stdout.count("\n") == 5, "a line of JSON per client and one for the end", server)
    finally:
        server.kill()


def scenario_positional():
    """The textbook's arguments: device port gid-index num-qp."""
    first = Server(extra=["--json"])
    first.kill()
    server = run_pair.Tool("rdma_server", ["uroce0", first.port, 1, 8, "--json"])
    try:
        server.wait_for_line("waits for a client")
        client = run_pair.Tool("rdma_client", ["localhost", "uroce0", first.port, 1, 8, "--json", "--iters", 10])
        check(client.finish() == 0 and server.finish() == 0, "positional arguments", client, server)
        check(client.result()["workload"]["num_qp"] == 8, client.result(), client)
    finally:
        server.kill()


def scenario_summary_and_trace():
    """What a person sees."""
    server = Server(["--trace"], extra=[])
    client = Client(server, ["--op", "mixed", "--iters", "20", "--verify", "--trace", "--seed", "0"], extra=[])
    try:
        check((client.finish(), server.finish()) == (0, 0), "status", client, server)
        for word in ("ok: 4 QPs", "initiated", "latency", "p99.9", "verified", "engine", "retransmitted", "ICRC errors"):
            check(word in client.stdout, f"no '{word}' in {client.stdout}", client)
        for step in ("ibv_open_device", "ibv_reg_mr", "ibv_create_qp", "RESET -> INIT", "metadata of 4 QPs exchanged",
                     "INIT -> RTR", "RTR -> RTS", "barrier", "verdicts exchanged", "device closed"):
            check(step in client.stderr, f"no '{step}'", client)
        check("ibv_post_recv" in server.stderr, "no receives", server)
        order = [server.stderr.index(step) for step in ("RESET -> INIT", "ibv_post_recv", "metadata", "RTR -> RTS")]
        check(order == sorted(order), "steps out of order", server)
        for state in ("QP 0 (qpn 0x11): RESET", "): INIT", "): RTR, to qpn", "): RTS, to qpn"):
            check(state in client.stderr, f"no '{state}'", client)
        # As a textbook has it: numbered, named, with a reason; the same number at both sides.
        for tool in (client, server):
            for line in ("[ 1] device list: ", "[ 8] QP list: ibv_create_qp", "[12] RTR: ", "     why: ", "(was INIT)",
                         "[16] completions: ", f": {'send' if tool is client else 'receive'}, wr_id 0x", ", success"):
                check(line in tool.stderr, f"no '{line}'", tool)
        check(": SEND, wr_id 0x" in client.stderr or ": WRITE, wr_id 0x" in client.stderr, "no sends", client)
    finally:
        client.kill()
        server.kill()


def first_numbers(*seed):
    """QP number, first PSN and R_Key of a client."""
    server = Server(["--num-qp", "1", *seed], extra=[])
    client = Client(server, ["--num-qp", "1", "--op", "write", "--iters", "1", "--trace", *seed], extra=[])
    try:
        check((client.finish(), server.finish()) == (0, 0), "status", client, server)
        return [re.search(rf"{name} (0x[0-9a-f]+)", client.stderr).group(1) for name in ("qpn", "sends from psn", "rkey")]
    finally:
        client.kill()
        server.kill()


def scenario_numbers_are_drawn():
    """A stranger can't know the numbers: they are others in every run, unless a seed decides them."""
    runs = [first_numbers() for _ in range(3)]
    for numbers in zip(*runs):
        check(len(set(numbers)) > 1, f"always the same: {runs}")
    seeded = [first_numbers("--seed", "7") for _ in range(2)]
    check(seeded[0] == seeded[1], f"not the same: {seeded}")


def scenario_trace_in_chinese():
    """--lang, or LANG; errors stay English."""
    server = Server(["--trace"], extra=[], env={"LANG": "zh_CN.UTF-8", "LC_ALL": ""})
    client = Client(server, ["--iters", "1", "--trace", "--lang", "zh"], extra=[])
    try:
        check((client.finish(), server.finish()) == (0, 0), "status", client, server)
        for tool in (client, server):
            for line in ("[ 5] 保护域（PD）：ibv_alloc_pd", "为什么：", "[12] RTR：ibv_modify_qp：INIT -> RTR", "设备已关闭"):
                check(line in tool.stderr, f"no '{line}'", tool)
            check("why:" not in tool.stderr, "English as well", tool)
    finally:
        client.kill()
        server.kill()


def scenario_capture(directory="."):
    """--pcap records both sides."""
    files = [os.path.join(directory, f"e2e_capture_{side}.pcap") for side in ("client", "server")]
    try:
        client, server = transfer("send", iterations=5, qps=1, options=["--pcap", files[0]],
                                  server_args_extra=["--pcap", files[1]])
        check(client["nic"]["pcap"] == files[0] and server["nic"]["pcap"] == files[1], (client["nic"], server["nic"]))
        for name in files:
            check(os.path.getsize(name) > 5 * 4096, f"{name} has {os.path.getsize(name)} bytes")
    finally:
        for name in files:
            if os.path.exists(name):
                os.unlink(name)


def scenario_offload(directory="."):
    """UROCE_OFFLOAD=gso on both sides or one; the capture shows every packet by itself."""
    gso = {"UROCE_OFFLOAD": "gso"}
    checker = os.path.join(os.path.dirname(__file__), "..", "wire", "icrc_check.py")
    name = os.path.join(directory, "e2e_offload.pcap")
    try:
        client, server = transfer("mixed", size=200_000, iterations=20, env=gso, options=["--pcap", name])
        for result in (client, server):
            check("udp-gso" in result["nic"]["engine"]["features"], result["nic"]["engine"])
        judged = subprocess.run([sys.executable, checker, "--ours", name], check=False, capture_output=True, text=True)
        check(judged.returncode == 0, judged.stdout)
        counters = client["nic"]["counters"]
        check(f"{counters['sent_pkts'] + counters['rcvd_pkts']} packets" in judged.stdout, judged.stdout, counters)
    finally:
        if os.path.exists(name):
            os.unlink(name)
    transfer("mixed", size=200_000, iterations=20, client_env=gso)


def scenario_ipv6():
    need_namespaces()
    for address in ("fd00:75::1", "fd00:75::2"):
        subprocess.run(["ip", "address", "add", address + "/128", "dev", "lo", "nodad"], check=True)
    client, server = transfer("mixed", size=10000, iterations=70, options=["--mtu", "4096"],
                              env={"UROCE_ADDR": "fd00:75::1"}, client_env={"UROCE_ADDR": "fd00:75::2"},
                              host="fd00:75::1")
    check(server["gid"] == "fd00:75::1" and client["gid"] == "fd00:75::2", (client["gid"], server["gid"]))
    transfer("send", size=100, iterations=20, env={"UROCE_ADDR": "fd00:75::1"}, host="::1",
             client_env={"UROCE_ADDR": "fd00:75::2", "UROCE_ENGINE": "socket"})
