# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark programs and other people's, and returns what they measured.

Every function here takes the seconds it may measure and returns a number, or a dictionary of numbers."""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BIN = os.path.join(ROOT, "build", "release", "bin")
LIMIT = 120  # Seconds after which a program is taken for hung.


def output(command, env=None):
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=LIMIT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


def _json(command, env=None):
    return json.loads(output(command, env))


def verbs(seconds, mode, offload=False, wire="udp", delay=None, **options):
    """uroce_bench_verbs; data that is not what it should be is an error. `delay`: of every packet, e.g. "500us"."""
    command = [os.path.join(BIN, "uroce_bench_verbs"), mode, "--seconds", str(seconds)]
    for name, value in options.items():
        command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    env = {"UROCE_WIRE": wire}
    if offload:
        env["UROCE_OFFLOAD"] = "gso"
    if delay:
        env["UROCE_FAULTS"] = f"delay={delay}@100%"
    result = _json(command, env)
    for side in ("client", "server"):
        if not result.get(side, {}).get("verified", True):
            raise RuntimeError(f"{' '.join(command)}: the data that arrived at the {side} is wrong")
    return result


def raw(seconds, bytes, before=(), how=("sendmmsg", "io_uring"), pairs=1):
    """Raw UDP datagrams that arrived in a second: the fastest of these ways, each with a window and without. `before`:
    what stands before the command. `pairs`: so many at once, together."""
    def arrived(mode, via):
        command = [*before, os.path.join(BIN, "uroce_bench_udp"), mode, via, str(bytes), str(seconds / (2 * len(how)))]
        with concurrent.futures.ThreadPoolExecutor(pairs) as pool:
            return sum(way["packets_per_second"] for way in pool.map(_json, [command] * pairs))
    return max(arrived(mode, via) for mode in ("blast", "flood") for via in how)


def raw_pingpong(seconds, bytes, via, before=(), mode="pingpong"):
    """`mode`: "pairs" sends two datagrams each way, as many as RC does: a message, and the ACK of the one before."""
    return _json([*before, os.path.join(BIN, "uroce_bench_udp"), mode, via, str(bytes), str(seconds)])


def rdma_client(seconds, depth):
    """rdma_client's WRITEs of 64 KiB over one QP, as perftest's."""
    program = lambda name: os.path.join(BIN, name)
    server = subprocess.Popen([program("rdma_server"), "--port", "18572"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = _json([program("rdma_client"), "127.0.0.1", "--port", "18572", "--op", "write", "--size", "64K", "--num-qp", "1",
                      "--depth", str(depth), "--iters", str(max(100, int(seconds * 20_000))), "--json"])
        server.wait(timeout=10)
    finally:
        server.kill()
        server.wait()
    return done["initiated"]["gbit_per_s"]


def _with_server(server, client, ready, env=None):
    """Output of `client`, which is run once `server` has printed `ready`."""
    with tempfile.TemporaryFile("w+") as errors, \
            subprocess.Popen(server, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=errors,
                             text=True) as process:
        try:
            for line in process.stdout:
                if ready in line:
                    break
            return output(client, env)
        finally:
            process.kill()


def iperf3(seconds, bytes=128 * 1024):
    """TCP throughput with writes of `bytes`; iperf3's own choice is the fastest here, and it takes no more than a MiB."""
    server = ["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", "15201", "--forceflush"]
    client = ["iperf3", "-c", "127.0.0.1", "-p", "15201", "-t", str(max(1, round(seconds))), "-l", str(min(bytes, 2**20)),
              "-J"]
    end = json.loads(_with_server(server, client, "Server listening"))["end"]
    return {"gigabits_per_second": end["sum_received"]["bits_per_second"] / 1e9,
            "cpu_percent": end["cpu_utilization_percent"]["host_total"] + end["cpu_utilization_percent"]["remote_total"]}


def has_long_path():
    """Whether this user may have two hosts with a path between them."""
    tun = os.access("/dev/net/tun", os.R_OK | os.W_OK)
    return tun and subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def long_path(seconds, round_trip_ms, what):
    """What `what`, "uroce" or "tcp", gets through a path (long_path.py)."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_path.py")
    return _json(["unshare", "-rn", sys.executable, script, BIN, str(round_trip_ms), str(seconds), what])


def ucx(seconds, bytes, transport="tcp"):
    """UCX over TCP, or over shared memory (posix): throughput of tagged messages."""
    env = {"UCX_TLS": transport, "UCX_WARN_UNUSED_ENV_VARS": "n", **({"UCX_NET_DEVICES": "lo"} if transport == "tcp" else {})}
    count = max(100, int(seconds * 1e9 / max(bytes, 2000)))
    server = ["stdbuf", "-oL", "ucx_perftest", "-p", "15301"]
    client = ["ucx_perftest", "127.0.0.1", "-p", "15301", "-t", "tag_bw", "-s", str(bytes), "-n", str(count), "-f"]
    last = _with_server(server, client, "Waiting for connection", env).strip().splitlines()[-1]
    megabytes = float(last.split()[-3])  # Overall bandwidth, in units of 2^20 bytes.
    return {"gigabits_per_second": megabytes * 8 * 2**20 / 1e9}


def memory_copy(seconds, bytes):
    """One core that copies `bytes` to and fro within its cache: more than any wire can do."""
    source, target = memoryview(bytearray(bytes)), memoryview(bytearray(bytes))
    done, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        for _ in range(50):
            target[:] = source
        done += 50 * bytes
    return {"gigabits_per_second": done * 8e-9 / (time.perf_counter() - began)}


def eventfd_pingpong(seconds):
    """Two processes that wake each other by eventfds; a microsecond or two of it is the Python interpreter's."""
    there, back = os.eventfd(0), os.eventfd(0)
    child = os.fork()
    if child == 0:
        while True:
            os.eventfd_read(there)
            os.eventfd_write(back, 1)
    try:
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            os.eventfd_write(there, 1)
            os.eventfd_read(back)
            times.append((time.perf_counter() - began) / 2 * 1e6)
        return {"half_round_trip_us": sorted(times)[len(times) // 2]}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(there)
        os.close(back)


def rdma_cm(connections=1000):
    """Connections that cmtime makes and ends at once by RDMA CM, each step for all of them before the next."""
    program = [os.path.join(BIN, "uroce"), "run", "--addr"]
    server = subprocess.Popen([*program, "127.0.0.2", "--", "cmtime"], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 5  # It does not say when it listens; until then clients are refused.
        while True:
            try:
                said = output([*program, "127.0.0.1", "--", "cmtime", "-c", str(connections), "-s", "127.0.0.2"])
                break
            except RuntimeError:
                if time.monotonic() > deadline or server.poll() is not None:
                    raise
    finally:
        server.kill()
        server.wait()
    totals = [float(ms) for ms in re.findall(r"^[a-z ]+: +([0-9.]+)", said, re.MULTILINE)]
    return {"connections_per_second": connections / sum(totals) * 1e3}


def tcp_connections(seconds):
    """Connect, accept and close, one after the other in two processes; some of the time is the Python interpreter's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            while True:
                listener.accept()[0].close()
        try:
            done, began = 0, time.monotonic()
            while time.monotonic() < began + seconds:
                with socket.create_connection(listener.getsockname()) as connection:
                    connection.recv(1)  # Until the other side has closed it.
                done += 1
            return {"connections_per_second": done / (time.monotonic() - began)}
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def listens(port):
    """Whether somebody listens on the TCP port in this network namespace."""
    with open("/proc/net/tcp", encoding="ascii") as v4, open("/proc/net/tcp6", encoding="ascii") as v6:
        fields = [line.split() for line in [*v4, *v6]]
    return any(f[1].endswith(f":{port:04X}") and f[3] == "0A" for f in fields)


def installed(program):
    return shutil.which(program) is not None


def micro(seconds, pattern):
    """Google Benchmark's counters by name, and `cpu_ns`."""
    report = _json([os.path.join(BIN, "uroce_bench_micro"), f"--benchmark_filter=^({pattern})$", "--benchmark_format=json",
                    f"--benchmark_min_time={seconds / 4}"])
    unit = {"ns": 1, "us": 1e3, "ms": 1e6}
    return {b["name"]: {**b, "cpu_ns": b["cpu_time"] * unit[b["time_unit"]]} for b in report["benchmarks"]}


def cache_line():
    """Nanoseconds that a cache line takes from one processor to another and back; None when there is only one."""
    if len(os.sched_getaffinity(0)) == 1:
        return None
    for _ in range(3):
        nanoseconds = micro(0.04, "cache_line/real_time")["cache_line/real_time"]["real_time"]
        if nanoseconds < 100_000:  # Else one of the threads had lost its processor.
            return nanoseconds
    return None


def machine():
    """`model` tells processors of one name apart: virtual machines often hide the rest of it."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        facts = dict(re.findall(r"^(.*?)\s*: (.*)$", file.read(), re.MULTILINE))
    return {"processor": facts.get("model name", "unknown"), "model": f"{facts.get('cpu family', '?')}/{facts.get('model', '?')}",
            "cores": os.cpu_count(), "kernel": os.uname().release}
