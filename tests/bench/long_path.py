# SPDX-License-Identifier: Apache-2.0
"""Two hosts with a path between them that takes time (long_path.cc): what uroce or TCP gets through it.

    unshare -rn python3 long_path.py BIN ROUND_TRIP_MS SECONDS uroce|tcp

Prints one line of JSON. The packets of the path have 4200 bytes, so that one of TCP carries about as much as one of RoCE."""
import contextlib
import json
import os
import subprocess
import sys

HERE, THERE, MTU, WRITE = "10.98.0.1", "10.98.0.2", 4200, 2**20


@contextlib.contextmanager
def path(bin, round_trip_ms):
    """Yields what to put before a command to run it on the other host."""
    line = subprocess.Popen([os.path.join(bin, "uroce_bench_path"), str(int(round_trip_ms * 500)), str(MTU)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        there = ["nsenter", "-t", line.stdout.readline().strip(), "-n"]
        for address, host in ((HERE, []), (THERE, there)):
            for what in (f"addr add {address}/24 dev path0", f"link set path0 mtu {MTU} up", "link set lo up"):
                subprocess.run([*host, "ip", *what.split()], check=True)
        yield there
    finally:
        line.stdin.close()
        line.wait()


def uroce(bin, there, seconds):
    """4 QPs, for about as long as 4 Gb/s would take. With events: on two processors, tools that poll would take the time
    that the path itself needs."""
    tool = lambda name: [os.path.join(bin, name), "--addr", "path0", "--num-qp", "4", "--events"]
    with subprocess.Popen([*there, *tool("rdma_server")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as server:
        server.stderr.readline()  # It waits for a client.
        done = subprocess.run([*tool("rdma_client"), THERE, "--op", "write", "--size", str(WRITE), "--iters",
                               str(max(4, int(seconds * 120))), "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["initiated"]["gbit_per_s"]


def tcp(there, seconds):
    with subprocess.Popen([*there, "iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if "listening" in line:
                break
        done = subprocess.run(["iperf3", "-c", THERE, "-t", str(max(1, round(seconds))), "-J"], stdout=subprocess.PIPE,
                              text=True, check=True)
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9


def main():
    bin, round_trip_ms, seconds, what = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    with path(bin, round_trip_ms) as there:
        result = tcp(there, seconds) if what == "tcp" else uroce(bin, there, seconds)
    print(json.dumps({"gigabits_per_second": result}))


main()
