#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rxe_pair.py [--bin DIR] [--keep DIR] [PATTERN...]: uroce against Linux's Soft-RoCE, in both roles.

One side is rdma_client or rdma_server on the host, on the emulated NIC; the other one is the same program in the lab's
guest, on the kernel's rdma_rxe (--backend ibverbs). Every message is verified where it arrives, and every packet that the
emulated NIC sent or received is judged by the independent ICRC checker. One line per case, a verdict at the end. PATTERN
(shell style) chooses cases; --list lists them; --keep DIR keeps the captures. The lab is started when it is down, and
then stopped again. Exit status: 0, 1, or 77 = skipped (no root, no QEMU, or the lab is not built).
"""

import argparse
import fcntl
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE.parent / "e2e", HERE.parent / "wire", HERE.parent / "clients"):
    sys.path.insert(0, str(folder))
import icrc_check  # noqa: E402
import judges  # noqa: E402
import roce  # noqa: E402
import run_pair  # noqa: E402
from guest_command import GuestCommand  # noqa: E402

LAB = HERE / "lab"
SHARE = pathlib.Path(os.environ.get("UROCE_LAB") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "uroce-lab") / "share"
HOST = {4: "10.77.0.1", 6: "fd77::1"}
OUR_ADDRESSES = f"{HOST[4]},{HOST[6]}"
GUEST = {4: "10.77.0.2", 6: "fd77::2"}
GID_INDEX = {4: 1, 6: 2}  # on both NICs: link-local, IPv4, global IPv6
# 1.07 s. The guest has one core, translated by QEMU, on which the server polls while rxe works in a kernel thread: on a busy
# host it was seen to stand still for 0.3 s, TCP and all.
ACK_TIMEOUT = 18
PERFTEST = [f"ib_{op}_{kind}" for op in ("send", "write", "read", "atomic") for kind in ("bw", "lat")]  # not in the guest
WITH_PROGRAMS = "PATH=/lab/programs:$PATH LD_LIBRARY_PATH=/lab/lib"  # how commands run in the guest
OF_THE_SYSTEM = ("libc.so", "libm.so", "ld-linux", "linux-vdso")  # the guest has its own


class Transfer:
    """rdma_client and rdma_server. `role` says what the emulated NIC is: "client" or "server"."""
    timeout = ACK_TIMEOUT
    both_sides = ()  # further options
    env = {}  # of the side that is the emulated NIC

    def __init__(self, role, family, op, size, mtu, qps=3, iterations=21, options=()):
        self.role, self.family, self.op, self.size, self.mtu = role, family, op, size, mtu
        self.qps, self.iterations, self.options = qps, iterations, list(options)
        self.name = f"{role}.ipv{family}.{op}.{size}B.mtu{mtu}.{qps}qp" + "".join(self.options).replace("--", ".")

    def run(self, capture):
        with RxePair(self, capture) as pair:
            status = pair.client.finish(), pair.server.finish()
            run_pair.check(status == (0, 0), f"status {status}", pair.client, pair.server)
            check_results(self, pair)
            again = pair.ours.result()["nic"]["counters"]["retransmitted_pkts"]
        return f"{again} sent again"


class Program:
    """An unmodified program of Debian's, on the host loaded with our libibverbs.so.1. The GID index says which IP the
    packets take; the two programs find each other by TCP over IPv4, they know no other. `judge` looks at what the client
    and the server print."""

    def __init__(self, role, family, command, judge):
        program, *options = command.split()
        self.role, self.family, self.command, self.judge = role, family, command, judge
        self.name = f"{role}.ipv{family}." + ".".join([program, *(word.strip("-") for word in options)])

    def run(self, capture):
        library = run_pair.BIN.parent / "lib"
        run_pair.check((library / "libibverbs.so.1").exists(), "there is no libibverbs.so.1: build the target uroce_libibverbs")
        env = {**os.environ, "LD_LIBRARY_PATH": str(library), "LD_PRELOAD": str(library / "libibverbs.so.1"),
               "UROCE_PCAP": capture, "UROCE_ADDR": OUR_ADDRESSES}
        command = ["timeout", "30", *self.command.split(), "-x" if self.command.startswith("ib_") else "-g",
                   str(GID_INDEX[self.family])]
        in_guest = " ".join([WITH_PROGRAMS, *command, "-d rxe0"])
        if self.role == "client":
            guest = GuestCommand(in_guest, 40)
            wait_for_listener(lambda: GuestCommand("ss -tln", 10).finish()[1])
            ours = subprocess.Popen([*command, GUEST[4]], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        else:
            ours = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            wait_for_listener(lambda: subprocess.run(["ss", "-tln"], capture_output=True, text=True, check=True).stdout)
            guest = GuestCommand(f"{in_guest} {HOST[4]}", 40)
        output = ours.communicate()[0].decode()
        status, guest_output = guest.finish()
        both = f"{ours.returncode} {output}\n{status} {guest_output}"
        run_pair.check((ours.returncode, status) == (0, 0), both)
        try:
            self.judge(*((output, guest_output) if self.role == "client" else (guest_output, output)))
        except AssertionError as why:
            raise AssertionError(f"{why}\n{both}") from None
        return "unmodified"


def wait_for_listener(list_sockets):
    """These programs take the first connection for their peer, so it cannot be tried by connecting."""
    deadline = time.monotonic() + 10
    while ":18515 " not in list_sockets():
        run_pair.check(time.monotonic() < deadline, "the server does not listen")
        time.sleep(0.05)


def cases():
    """Every operation, over both IP versions and two MTUs, in both roles; sizes around what is special; many QPs."""
    for role in ("client", "server"):
        for family in (4, 6):
            for mtu in (1024, 4096):
                for op in (*run_pair.OPS, "mixed"):
                    yield Transfer(role, family, op, 10001, mtu)
                for op in ("send", "write", "read"):
                    for size in (0, 1, mtu, mtu + 1, 65536):
                        yield Transfer(role, family, op, size, mtu, qps=2, iterations=9)
                    yield Transfer(role, family, op, 1 << 20, mtu, qps=2, iterations=3)
        for op in ("send", "mixed"):
            yield Transfer(role, 4, op, 3000, 1024, qps=64, iterations=14)
            yield Transfer(role, 4, op, 5000, 4096, options=["--bidir"])
        yield Transfer(role, 4, "mixed", 5001, 1024, options=["--events"])
        yield Transfer(role, 4, "mixed", 200, 1024, options=["--inline"])
        yield from programs(role)


def programs(role):
    """Those that are installed, with RC and, where a slow guest cannot lose packets (one at a time), UC and UD."""
    if shutil.which("ibv_rc_pingpong"):
        for family in (4, 6):
            yield Program(role, family, "ibv_rc_pingpong -n 300 -s 5000 -c -e", judges.pingpong(300))
        for kind in ("uc", "ud", "srq"):
            size = 1000 if kind == "ud" else 5000
            yield Program(role, 4, f"ibv_{kind}_pingpong -n 100 -s {size} -c", judges.pingpong(100))
    if shutil.which("ib_send_bw"):
        for program in PERFTEST:
            size = 8 if "atomic" in program else 5000
            options = "-F -n 100 -u 18" if "atomic" in program else f"-F -n 100 -s {size} -u 18"
            yield Program(role, 4, f"{program} {options}", judges.perftest(program[-3:].strip("_"), [size], 100))
        yield Program(role, 4, "ib_send_lat -F -n 100 -s 1000 -c UD", judges.perftest("lat", [1000], 100))
        yield Program(role, 4, "ib_send_lat -F -n 100 -s 5000 -c UC", judges.perftest("lat", [5000], 100))
        yield Program(role, 4, "ib_send_bw -F -a -n 5 -u 18", judges.perftest("bw", [1 << n for n in range(1, 24)], 5))
        yield Program(role, 4, "ib_read_bw -F -n 50 -s 5000 -q 16 -u 18", judges.perftest("bw", [5000], 50))


class GuestTool:
    """rdma_server or rdma_client in the guest; to be used like run_pair.Tool."""

    def __init__(self, name, arguments):
        words = [f"/lab/bin/{name}", "--backend", "ibverbs", "--device", "rxe0", "--json", *map(str, arguments)]
        self.command = "LD_LIBRARY_PATH=/lab/lib " + " ".join(words)
        self.under_way = GuestCommand(f"{self.command}", run_pair.TIMEOUT)
        self.output = ""

    def listening_port(self):
        if not self.under_way.wait_for(" port ") or not self.under_way.wait_for("\n"):
            self.finish()
            raise AssertionError(f"the server in the guest does not start: {self}")
        text = self.under_way.output.decode()
        return int(text.split(" port ")[1].split()[0])

    def finish(self):
        if not self.output:
            self.status, self.output = self.under_way.finish()
        return self.status

    def result(self):
        lines = [line for line in self.output.splitlines() if line.startswith("{")]
        run_pair.check(len(lines) == 1, "no JSON", self)
        return json.loads(lines[0])

    def kill(self):
        self.under_way.kill()

    def __str__(self):
        return f"in the guest: {self.command}\n--- output:\n{self.output}"


class RxePair:
    """The two sides of a case, .client and .server, one of them in the guest."""

    def __init__(self, case, capture):
        common = ["--gid-index", GID_INDEX[case.family], "--num-qp", case.qps, "--timeout", case.timeout, *case.both_sides]
        workload = [*common, "--op", case.op, "--size", case.size, "--iters", case.iterations, "--mtu", case.mtu, "--verify",
                    *case.options]
        env = {"UROCE_ADDR": OUR_ADDRESSES, **case.env}
        if case.role == "client":
            self.server = GuestTool("rdma_server", ["--port", 0, *common])
            self.server.port, self.server.address = self.server.listening_port(), GUEST[case.family]
            self.client = run_pair.Client(self.server, [*workload, "--pcap", capture], env)
        else:
            self.server = run_pair.Server([*common, "--pcap", capture], env)
            try:
                self.client = GuestTool("rdma_client", [HOST[case.family], "--port", self.server.port, *workload])
            except OSError:
                self.server.kill()  # It would keep the address.
                raise
        self.ours, self.rxe = ((self.client, self.server) if case.role == "client" else (self.server, self.client))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.kill()
        self.server.kill()


def check_results(case, pair, zero=run_pair.NEVER_HEALTHY):
    """Both sides' JSON: all went well, all was verified, one side was really uroce and the other one really rxe, and the
    emulated NIC's counters named `zero` are."""
    client, server = pair.client.result(), pair.server.result()
    for result in (client, server):
        run_pair.check(result["ok"] and result["verified"]["wrong_messages"] == 0, result, pair.client, pair.server)
    run_pair.check(pair.ours.result()["backend"] == "uroce", pair.ours.result())
    run_pair.check(pair.rxe.result()["backend"] == "ibverbs", pair.rxe.result())
    run_pair.check_nic(pair.ours.result(), pair.ours, zero)
    run_pair.check(client["workload"]["mtu"] == case.mtu, client["workload"])
    if "--bidir" not in case.options:
        run_pair.check_verified(client["verified"]["messages"], server["verified"]["messages"], case.op, case.iterations,
                                case.qps, pair)


def check_capture(path, case):
    """Every packet right; what rxe sent and what we sent, both counted."""
    packets = {HOST[case.family]: 0, GUEST[case.family]: 0}
    for number, (_, frame) in enumerate(roce.read_pcap(path), 1):
        try:
            packet = roce.decode(frame)
        except roce.NotRoce as why:
            raise AssertionError(f"packet {number}: {why}") from None
        sender = packet["ip"]["source"]
        found = list(icrc_check.complaints(packet, sender == HOST[case.family]))
        if not packet["icrc_ok"]:
            found.append("wrong ICRC")
        run_pair.check(not found, f"packet {number}: {found}: {packet}")
        packets[sender] += 1
    run_pair.check(min(packets.values()) > 0, f"packets by sender: {packets}")
    return packets[HOST[case.family]], packets[GUEST[case.family]]


def run(case, capture):
    """One case; returns a few words about it."""
    started = time.monotonic()
    words = case.run(capture)
    sent, received = check_capture(capture, case)
    return f"{sent} packets there, {received} back, {words}, {time.monotonic() - started:.1f} s"


def run_all(chosen, keep):
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in chosen:
            capture = f"{keep or scratch}/{case.name}.pcap"
            try:
                print(f"ok      {case.name}: {run(case, capture)}", flush=True)
            except (AssertionError, OSError) as failure:
                failed.append(case.name)
                print(f"FAILED  {case.name}: {failure}", flush=True)
            if not keep and os.path.exists(capture):
                os.unlink(capture)
    verdict = f"{len(failed)} FAILED: {' '.join(failed)}" if failed else "uroce and Soft-RoCE understand each other"
    print(f"{pathlib.Path(sys.argv[0]).stem}: {len(chosen)} cases: {verdict}")
    return 1 if failed else 0


def provide_tools(binaries, programs):
    """Puts our tools, the distribution's `programs` as far as they are installed, and the libraries that they all need where
    the guest sees them."""
    tools = {"bin": [binaries / "rdma_server", binaries / "rdma_client"],
             "programs": [path for path in (shutil.which(name, path="/usr/bin") for name in programs) if path]}
    for folder in (*tools, "lib"):
        (SHARE / folder).mkdir(exist_ok=True)
    for folder, tool in [(folder, tool) for folder, of_it in tools.items() for tool in of_it]:
        shutil.copy2(tool, SHARE / folder)
        for line in subprocess.run(["ldd", tool], check=True, capture_output=True, text=True).stdout.splitlines():
            path = line.split("=>")[-1].split()[0]
            if path.startswith("/") and not os.path.basename(path).startswith(OF_THE_SYSTEM):
                shutil.copy2(os.path.realpath(path), SHARE / "lib" / os.path.basename(path))


def lab(*arguments, check=True):
    return subprocess.run([LAB, *arguments], check=check, stdout=subprocess.DEVNULL).returncode


def main(description, all_cases, run_all_of, programs=PERFTEST):
    """Chooses among `all_cases` as the command line says, brings the lab up with these programs in it, and calls
    run_all_of(cases, folder for captures) inside its network. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parents[2] / "build/release/bin", metavar="DIR")
    parser.add_argument("--keep", metavar="DIR", help="keep the captures there")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    options = parser.parse_args()
    patterns = options.patterns or ["*"]
    chosen = [case for case in all_cases if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]
    if options.list or not chosen:
        print("\n".join(case.name for case in chosen) or "no such case")
        return 0 if chosen else 1
    run_pair.BIN = options.bin.resolve()
    if options.in_namespace:
        return run_all_of(chosen, options.keep)
    if os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"):
        print("SKIPPED: needs root and qemu-system-x86_64 (docs/interop.md)")
        return 77
    if not (SHARE.parent / "build/initrd.gz").exists():
        print("SKIPPED: the lab is not built: tests/programs/interop/lab build")
        return 77
    with open(SHARE.parent / "run/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one guest, one test at a time
        provide_tools(run_pair.BIN, programs)
        was_up = lab("status", check=False) == 0
        lab("up")
        try:
            return subprocess.run([LAB, "hostrun", sys.executable, *sys.argv, "--in-namespace"], check=False).returncode
        finally:
            if not was_up:
                lab("down")


if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), run_all))
