# SPDX-License-Identifier: Apache-2.0
"""Captures: of several processes in one file, live through a FIFO, and when nothing more can be written."""

import collections
import json
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import run_pair
from run_pair import Client, Server, Skip, check, need_namespaces

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6


def told(*paths):
    """The packets of captures as `uroce explain --json` tells them, by file and frame."""
    ran = subprocess.run([str(run_pair.BIN / "uroce"), "explain", "--json", "--packets", *paths], capture_output=True, check=True)
    return {(packet["place"]["file"], packet["place"]["frame"]): packet for packet in json.loads(ran.stdout)["packets"]}


def scenario_explain_agrees_with_the_nic(directory="."):
    """What `uroce explain` says for sure of a capture without comments is what the NIC says in its comments."""
    if not shutil.which("editcap"):
        raise Skip("needs editcap")
    name = os.path.join(directory, "e2e_explain_agrees")
    commented, bare = name + ".pcapng", name + ".pcap"
    faults = "loss=1%,dup=1%,corrupt=1%"
    with run_pair.Pair(["--num-qp", "3", "--op", "mixed", "--size", "9000", "--iters", "150", "--timeout", "12", "--faults",
                        f"{faults},delay=2ms..20ms@1%,seed=5", "--pcap", commented],
                       ["--faults", f"{faults},rnr=2%,seed=3"]) as pair:
        check(pair.finish() == (0, 0), "a bad wire", pair.client, pair.server)
    try:
        subprocess.run(["editcap", "-F", "nsecpcap", commented, bare], capture_output=True, check=True)
        by_nic, guessed = told(commented), told(bare)
        check(by_nic.keys() == guessed.keys(), f"{len(by_nic)} packets, {len(guessed)} without comments")
        wrong = []
        reasons = collections.Counter(packet["reason"] for packet in by_nic.values())
        check(all(reasons[reason] > 0 for reason in ("nak", "timeout", "rnr", "implied_nak", "network_copy", "reordered")), reasons)
        for frame, packet in by_nic.items():
            comment = " ".join(note["text"] for note in packet["notes"] if note["code"] == "comment")
            sent_again = "NIC: " in comment and "sent again because of" in comment
            resent = packet["reason"] in ("nak", "timeout", "rnr", "implied_nak")
            if packet["from"] == "a" and packet["reason"] not in ("network_copy", "none"):
                check(sent_again == resent, (frame, packet["why"]))
            if resent or "uroce: d" in comment:
                check(packet["sure"], (frame, packet["why"]))
            guess = guessed[frame]
            # A guess is called so.
            unseen = resent and guess["reason"] == "first"  # The first one is still on its way.
            # A NAK is an implied one as well where an answer before it is missing.
            both = {guess["reason"], packet["reason"]} == {"nak", "implied_nak"} and guess["cause"] == packet["cause"]
            if not (guess["reason"] == packet["reason"] or unseen or both or not guess["sure"]):
                wrong.append((frame, guess["cause"], packet["why"], guess["why"]))
        # A NAK may come at the very moment when the NIC goes back for another reason.
        check(len({str(cause) for _, cause, *_ in wrong}) <= 1, wrong)
        right = sum(packet["reason"] == guessed[frame]["reason"] for frame, packet in by_nic.items())
        check(right >= 0.85 * len(by_nic), f"{right} of {len(by_nic)} packets")
    finally:
        for path in (commented, bare):
            if os.path.exists(path):
                os.unlink(path)


def scenario_explain_of_a_clean_run(directory="."):
    """Where nothing goes wrong, nothing is told to: neither of credits that a responder sends, nor of the last packets."""
    files = [os.path.join(directory, f"e2e_clean_{end}.pcap") for end in ("client", "server")]
    try:
        with run_pair.Pair(["--cm", "--num-qp", "1", "--op", "mixed", "--depth", "1", "--iters", "70", "--pcap", files[0]],
                           ["--cm", "--pcap", files[1]]) as pair:
            check(pair.finish() == (0, 0), "a clean run", pair.client, pair.server)
        for names in (files, files[:1], files[1:]):
            packets = told(*names).values()
            reasons = collections.Counter((packet["reason"], "disconnect" in packet["why"]) for packet in packets)
            allowed = {(reason, False) for reason in ("first", "answer", "credits", "management")}
            # For a process that ends before its DREQ is answered it is repeated (ADR 16), perhaps while the peer still captures.
            allowed |= {(reason, True) for reason in ("management", "management_again", "network_copy")}
            check(set(reasons) <= allowed, (names, reasons))
            for packet in packets:
                lost = [note["text"] for note in packet["notes"] if note["code"] == "lost"]
                check(all("probably lost" in text for text in lost), (names, packet["why"]))
        if not shutil.which("rping"):
            raise Skip("needs rping for ACKs that tell of credits only")
        address = f"127.{random.randint(60, 90)}.{random.randint(1, 250)}.1"
        run = [str(run_pair.BIN / "uroce"), "run", "--pcap", files[0], "--addr", address, "--", "rping", "-a", address, "-C", "3"]
        server = subprocess.Popen([*run, "-s"], stdout=subprocess.DEVNULL)
        try:
            client = [*run[:5], address[:-1] + "2", *run[6:], "-c"]
            deadline = time.monotonic() + 10
            while subprocess.run(client, capture_output=True, check=False).returncode != 0:
                check(time.monotonic() < deadline, "no rping in 10 s")
                time.sleep(0.1)
        finally:
            server.kill()
            server.wait()
        reasons = collections.Counter(packet["reason"] for packet in told(files[0]).values())
        check(reasons["credits"] > 0 and reasons["answer_again"] == 0, reasons)
    finally:
        for path in files:
            if os.path.exists(path):
                os.unlink(path)


def read_capture(path):
    """[(interface or None, frame)] of a capture that is whole to its last byte, and the names of the interfaces."""
    with open(path, "rb") as file:
        data = file.read()
    frames, names, at = [], [], 0
    if data[:4] == struct.pack("<I", 0xA1B23C4D):
        at = 24
        while at < len(data):
            check(at + 16 <= len(data), f"{path}: cut off at {at}")
            size, length = struct.unpack_from("<8xII", data, at)
            check(size == length and at + 16 + size <= len(data), f"{path}: no record at {at} of {len(data)}")
            frames.append((None, data[at + 16:at + 16 + size]))
            at += 16 + size
        return frames, names
    check(data[:4] == struct.pack("<I", SECTION), f"{path}: no capture: {data[:16]}")
    while at < len(data):
        check(at + 12 <= len(data), f"{path}: cut off at {at}")
        kind, size = struct.unpack_from("<II", data, at)
        check(at + size <= len(data) and struct.unpack_from("<I", data, at + size - 4)[0] == size,
              f"{path}: no block at {at} of {len(data)}")
        if kind == SECTION:
            check(at == 0, f"{path}: a second section at {at}")
        elif kind == INTERFACE:
            code, length = struct.unpack_from("<HH", data, at + 16)
            names.append(data[at + 20:at + 20 + length].decode() if code == 2 else "")
        else:
            check(kind == PACKET, f"{path}: block of type {kind} at {at}")
            interface, length = struct.unpack_from("<I8xI", data, at + 8)
            check(interface < len(names), f"{path}: interface {interface} of {len(names)}")
            frames.append((interface, data[at + 28:at + 28 + length]))
        at += size
    return frames, names


def packets_of(result):
    counters = result["nic"]["counters"]
    return counters["sent_pkts"] + counters["rcvd_pkts"]


def in_a_directory(test):
    def scenario():
        directory = tempfile.mkdtemp(prefix="uroce-capture-")
        try:
            test(directory)
        finally:
            shutil.rmtree(directory)
    return scenario


def run_clients(server, count, env, arguments):
    """Clients of one server at the same time; their JSON."""
    clients = [Client(server, arguments, env) for _ in range(count)]
    try:
        for client in clients:
            check(client.finish() == 0, "client failed", client, server)
        return [client.result() for client in clients]
    finally:
        for client in clients:
            client.kill()


def finished(tool):
    check(tool.finish() == 0, "it failed", tool)
    return tool.result()


@in_a_directory
def scenario_shared_capture(directory):
    """Processes that run at the same time share a capture: every packet of each is in it, in whole records."""
    for suffix in ("pcap", "pcapng"):
        name = os.path.join(directory, f"all.{suffix}")
        with open(name, "wb") as stale:
            stale.write(b"what a former run has left" * 1000)
        env = {"UROCE_PCAP": name}
        servers = [Server(["--num-qp", "2"], env) for _ in range(2)]
        clients = [Client(server, ["--op", "mixed", "--num-qp", "2", "--size", "9000", "--iters", "210", "--verify"], env)
                   for server in servers]
        try:
            results = [finished(tool) for tool in (*clients, *servers)]
        finally:
            for tool in (*clients, *servers):
                tool.kill()
        frames, names = read_capture(name)
        wanted = [packets_of(result) for result in results]
        check(len(frames) == sum(wanted), f"{suffix}: {len(frames)} packets, not {wanted}")
        if suffix == "pcapng":
            counts = {names[i]: sum(f[0] == i for f in frames) for i in range(len(names))}
            expected = {f"uroce0 {os.path.basename(tool.command[0])}[{tool.process.pid}]": count
                        for tool, count in zip((*clients, *servers), wanted)}
            check(counts == expected, f"interfaces {counts}, not {expected}")


def run_in_shell(directory, name, script):
    """`uroce run --pcap NAME -- sh -c SCRIPT` in `directory`; its output."""
    done = subprocess.run([str(run_pair.BIN / "uroce"), "run", "--pcap", name, "--", "sh", "-c", script], cwd=directory,
                          env={k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=run_pair.TIMEOUT)
    check(done.returncode == 0, done.stdout)
    return done.stdout


@in_a_directory
def scenario_capture_of_a_run(directory):
    """`uroce run --pcap` begins a new capture for all processes of the command, one after the other or at once, wherever
    they are."""
    pair = ("cd /; for i in 1 2; do : >log; {0}/rdma_server --port 0 --num-qp 1 2>log & s=$!; "
            "until p=$(sed -n 's/.*TCP port \\([0-9]*\\).*/\\1/p' log); test -n \"$p\"; do :; done; "
            "{0}/rdma_client 127.0.0.1 --port $p --op write --size 100 --iters 70 --num-qp 1 || exit 1; wait $s || exit 1; done")
    script = pair.format(run_pair.BIN).replace("log", os.path.join(directory, "log"))
    for suffix in ("pcap", "pcapng"):
        sizes = []
        for _ in range(2):
            output = run_in_shell(directory, f"run.{suffix}", script)
            check(output.count("ok: ") == 4, output)
            frames, names = read_capture(os.path.join(directory, f"run.{suffix}"))
            sizes.append(len(frames))
            check(len(names) == (4 if suffix == "pcapng" else 0), f"interfaces {names}")
        # Each of four processes sends or receives each of its 70 requests at least; the first run has left nothing.
        check(all(280 <= size < 560 for size in sizes), f"{suffix}: {sizes} packets")


@in_a_directory
def scenario_capture_outlives_the_killed(directory):
    """Processes are killed in mid-capture: the others' packets are all there, and the file is whole."""
    chance = random.Random(11)
    for suffix in ("pcap", "pcapng"):
        env = {"UROCE_PCAP": os.path.join(directory, f"killed.{suffix}")}
        bulk = ["--op", "write", "--size", "1M", "--iters", "1000000"]
        survivor = Server(["--loop"], env)
        victims = []
        try:
            wanted = 0
            for _ in range(6):
                victims.append(Server([], env))
                victims.append(Client(victims[-1], bulk, env))
                client = Client(survivor, ["--op", "mixed", "--size", "3000", "--iters", "70", "--verify"], env)
                victims.append(client)
                wanted += packets_of(finished(client))
                size = os.path.getsize(env["UROCE_PCAP"])
                deadline = time.monotonic() + run_pair.TIMEOUT
                while os.path.getsize(env["UROCE_PCAP"]) < size + 1_000_000:
                    check(time.monotonic() < deadline, "the victims do nothing", *victims[-3:-1])
                    time.sleep(0.001)
                time.sleep(chance.uniform(0, 0.01))
                for victim in victims[-3:-1]:
                    victim.kill()
            survivor.signal(signal.SIGINT)
            survivor.finish()
        finally:
            for victim in victims:
                victim.kill()
            survivor.kill()
        frames, _ = read_capture(env["UROCE_PCAP"])
        check(len(frames) > 2 * wanted, f"{suffix}: {len(frames)} packets; clients alone have {wanted}")


def check_stopped(result, tool, reason):
    """The summary says once that the capture has stopped, why, and how much is missing."""
    check(reason in (result["nic"]["pcap_error"] or ""), result["nic"]["pcap_error"], tool)
    check(0 < result["nic"]["pcap_missed"] <= packets_of(result), result["nic"]["pcap_missed"], tool)


def frames_until_stopped(name, reason, launcher=()):
    """What the server's capture has, which must stop for this reason, while the transfer goes on to its end."""
    server = Server([], {"UROCE_PCAP": name}, launcher)
    client = Client(server, ["--op", "write", "--size", "100000", "--iters", "100", "--verify"])
    try:
        finished(client)
        check_stopped(finished(server), server, reason)
    finally:
        client.kill()
        server.kill()
    return read_capture(name)[0]


def limited(limit):
    """A launcher that gives a file at most so many bytes; 0: as many as it likes."""
    return ["prlimit", f"--fsize={limit}:{resource.RLIM_INFINITY}", "--"]


@in_a_directory
def scenario_capture_file_too_large(directory):
    """At the limit of a file's size, and on a full disk, the capture ends, whole; the program goes on."""
    for suffix in ("pcap", "pcapng"):
        name = os.path.join(directory, f"limited.{suffix}")
        frames = frames_until_stopped(name, "File too large", limited(400_000))
        check(0 < len(frames) and os.path.getsize(name) <= 400_000, f"{len(frames)}, {os.path.getsize(name)}")


def scenario_capture_disk_full():
    """The disk is full: the capture ends, whole; the program goes on."""
    need_namespaces()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", "/mnt"], check=True)
    frames = frames_until_stopped("/mnt/full.pcap", "No space left on device")
    check(len(frames) > 0, "nothing captured")


@in_a_directory
def scenario_capture_reader_leaves(directory):
    """The reader of a live capture may go: the program goes on, and says in its summary that the capture has ended."""
    fifo = os.path.join(directory, "fifo")
    os.mkfifo(fifo)
    reader = subprocess.Popen(["head", "-c", "50000", fifo], stdout=subprocess.DEVNULL)
    server = Server([], {"UROCE_PCAP": fifo})
    client = Client(server, ["--op", "write", "--size", "100000", "--iters", "100", "--verify"])
    try:
        finished(client)
        check_stopped(finished(server), server, "Broken pipe")
        check(reader.wait(run_pair.TIMEOUT) == 0, "head failed")
    finally:
        client.kill()
        server.kill()
        reader.kill()


@in_a_directory
def scenario_capture_without_reader(directory):
    """A FIFO that nobody reads is an error with a remedy, after some seconds in which a reader may come; a socket is one at once."""
    fifo, name = (os.path.join(directory, kind) for kind in ("fifo", "socket"))
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(name)
        for file, remedy in ((fifo, "nobody reads this FIFO; start the reader"), (name, "name a file or a FIFO")):
            server = run_pair.Tool("rdma_server", ["--port", "0"], {"UROCE_PCAP": file})
            try:
                check(server.finish(timeout=20) != 0, "it runs", server)
                check(remedy in server.stderr, "no remedy", server)
            finally:
                server.kill()


@in_a_directory
def scenario_capture_reader_stops(directory):
    """A reader that has stopped reading does not stop the program."""
    fifo = os.path.join(directory, "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    server = Server([], {"UROCE_PCAP": fifo})
    client = Client(server, ["--op", "write", "--size", "1M", "--iters", "100", "--verify", "--timeout", "20"])
    try:
        finished(client)
        check_stopped(finished(server), server, "does not read")
    finally:
        client.kill()
        server.kill()
        os.close(reader)


@in_a_directory
def scenario_live_capture(directory):
    """tshark at the other end of a FIFO shows packets of several processes while they are still alive, and all of them
    in the end."""
    if not shutil.which("tshark"):
        raise Skip("needs tshark")
    fifo = os.path.join(directory, "live")
    os.mkfifo(fifo)
    tshark = subprocess.Popen(["tshark", "-l", "-i", fifo, "-T", "fields", "-e", "infiniband.bth.opcode"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines, news = [], threading.Condition()

    def read():
        for line in tshark.stdout:
            with news:
                lines.append(line)
                news.notify_all()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    env = {"UROCE_PCAP": fifo}
    beginning = os.open(fifo, os.O_WRONLY)  # Once tshark reads; as long as this is open, it sees no end.
    server = Server(["--loop"], env)
    os.close(beginning)
    tools = [server]
    try:
        wanted = 0
        for round_number in range(2):
            tools.append(Client(server, ["--op", "mixed", "--size", "5000", "--iters", "70", "--verify"], env))
            wanted += 2 * packets_of(finished(tools[-1]))
            with news:  # The server is still there.
                live = news.wait_for(lambda: len(lines) >= wanted, run_pair.TIMEOUT)
            check(live, f"round {round_number}: tshark shows {len(lines)} packets of {wanted}", *tools)
        server.signal(signal.SIGINT)
        server.finish()
        tshark.wait(run_pair.TIMEOUT)
        thread.join(run_pair.TIMEOUT)
        check(all(line.strip() for line in lines), "packets that tshark can't read")
    finally:
        for tool in tools:
            tool.kill()
        tshark.kill()
        tshark.communicate()


@in_a_directory
def scenario_privileged_program(directory):
    """A setuid program does not do what its caller's environment says: no capture, nothing emptied, no other setting."""
    launcher = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    if not shutil.which("setpriv") or subprocess.run([*launcher, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("needs setpriv, and root, who may be somebody else")
    if os.statvfs(directory).f_flag & os.ST_NOSUID:
        raise Skip(f"setuid does not work in {directory}")
    os.chmod(directory, 0o755)
    program = os.path.join(directory, "rdma_server")
    shutil.copy(run_pair.BIN / "rdma_server", program)
    os.chmod(program, 0o4755)
    victim = os.path.join(directory, "roots")
    with open(victim, "w", encoding="ascii") as file:
        file.write("of root")
    env = {"UROCE_PCAP": victim, "UROCE_DEVICES": "nonsense", "UROCE_FAULTS": "nonsense"}
    bin_directory, run_pair.BIN = run_pair.BIN, type(run_pair.BIN)(directory)
    try:
        server = Server([], env, launcher)  # It has opened its NIC.
    finally:
        run_pair.BIN = bin_directory
    server.signal(signal.SIGINT)
    server.finish()
    with open(victim, encoding="ascii") as file:
        check(file.read() == "of root", "it has written to what UROCE_PCAP named", server)
