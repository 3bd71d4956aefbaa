#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rxe_speed.py [--bin DIR] [--rounds N]: uroce's speed beside that of Linux's Soft-RoCE, with perftest, in the same guest.

Both peers are in the lab's guest, which gets two processors, and are connected by loopback there: on rxe0, and on two
NICs of uroce over UDP, in offload mode and through shared memory, in turns. QEMU translates the guest's instructions, so
that only the ratios count, and even they are those of a slow machine. Prints medians, as a table with targets. The lab has to be
down before. Exit status: 0 when all ran, missed targets or not; 1; 77 = skipped (no root, no QEMU, or the lab is not built)."""

import argparse
import fcntl
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import rxe_pair
from guest_command import GuestCommand

WIRES = {"rxe": {}, "UDP": {}, "offload": {"UROCE_OFFLOAD": "gso"}, "shared memory": {"UROCE_WIRE": "shm"}}
# What is measured, which column of perftest's line it is, and the targets: ratios to rxe.
BANDWIDTH, TYPICAL, AVERAGE = 3, 4, 5
ROWS = [
    ("ib_send_bw -s 65536 -m 4096 -n 2000", BANDWIDTH),
    ("ib_write_bw -s 65536 -m 4096 -n 2000", BANDWIDTH),
    ("ib_read_bw -s 65536 -m 4096 -n 2000", BANDWIDTH),
    ("ib_write_bw -s 65536 -m 4096 -n 200 -q 16", BANDWIDTH),
    ("ib_send_lat -s 2 -n 5000", TYPICAL),
    ("ib_send_lat -s 2 -n 5000", AVERAGE),
    ("ib_write_lat -s 2 -n 5000", TYPICAL),
    ("ib_write_lat -s 2 -n 5000", AVERAGE),
    ("ib_read_lat -s 2 -n 5000", TYPICAL),
    ("ib_read_lat -s 2 -n 5000", AVERAGE),
]
UNITS = {BANDWIDTH: "MB/s", TYPICAL: "typical us", AVERAGE: "average us"}
TARGETS = {BANDWIDTH: {"UDP": 0.9, "offload": 1.2}, TYPICAL: {"UDP": 2.0}, AVERAGE: {"UDP": 2.0}}
# rxe has the port of all addresses of its network namespace.
NAMESPACE = "uroce"
SERVER, CLIENT = "127.0.0.11", "127.0.0.12"


def columns(wire, command):
    """The last line of numbers that the client prints."""
    def side(address, tail):
        if wire == "rxe":
            return f"LD_LIBRARY_PATH=/lab/lib {words} -d rxe0 -x {rxe_pair.GID_INDEX[4]} {rxe_pair.GUEST[4] if tail else ''}"
        settings = " ".join(f"{name}={value}" for name, value in {**WIRES[wire], "UROCE_ADDR": address}.items())
        return (f"ip netns exec {NAMESPACE} env LD_LIBRARY_PATH=/lab/uroce/lib:/lab/lib LD_PRELOAD=/lab/uroce/lib/libibverbs.so.1 "
                f"{settings} {words} {tail}")
    words = f"timeout 60 /lab/programs/{command} -F"
    guest = "" if wire == "rxe" else f"ip netns exec {NAMESPACE} "
    status, output = GuestCommand(
        f"{side(SERVER, '')} >/tmp/server 2>&1 & server=$!; "
        f"until {guest}ss -Htln sport = 18515 | grep -q .; do kill -0 $server || break; sleep 0.1; done; "
        f"{side(CLIENT, SERVER)} 2>&1; client=$?; wait $server && [ $client = 0 ] || {{ cat /tmp/server; false; }}", 150).finish()
    lines = [line.split() for line in output.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    if status != 0 or not lines:
        raise AssertionError(f"{wire}: {command}: status {status}\n{output}")
    return [float(word) for word in lines[-1]]


def measure(rounds):
    """All wires in turns, each round. Returns {(command, wire): lines of numbers}."""
    GuestCommand(f"ip netns add {NAMESPACE} && ip -n {NAMESPACE} link set lo up", 10).finish()
    results = {}
    for number in range(rounds):
        for command in dict.fromkeys(command for command, _ in ROWS):
            for wire in WIRES:
                print(f"\rround {number + 1}/{rounds}: {command}, {wire:20}", end="", file=sys.stderr, flush=True)
                results.setdefault((command, wire), []).append(columns(wire, command))
    print("\r" + " " * 80 + "\r", end="", file=sys.stderr)
    return results


def print_table(results):
    print(f"{'':56}" + "".join(f"{wire:>22}" for wire in WIRES))
    for command, column in ROWS:
        median = {wire: statistics.median(line[column] for line in results[command, wire]) for wire in WIRES}
        cells = []
        for wire, value in median.items():
            ratio, target = value / median["rxe"], TARGETS[column].get(wire)
            is_met = target is None or (ratio >= target if column == BANDWIDTH else ratio <= target)
            remark = "" if wire == "rxe" else f" ({ratio:.2f}{'' if is_met else ', MISSED'})"
            cells.append(f"{value:.{0 if value > 100 else 1}f}{remark}")
        print(f"{command + ' [' + UNITS[column] + ']':56}" + "".join(f"{cell:>22}" for cell in cells))
    print("ratios to rxe; targets: " + "; ".join(
        f"{UNITS[column]} {', '.join(f'{wire} {value}' for wire, value in targets.items())}" for column, targets in TARGETS.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=rxe_pair.HERE.parents[2] / "build/release/bin", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    if options.in_namespace:
        print_table(measure(options.rounds))
        return 0
    if os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"):
        print("SKIPPED: needs root and qemu-system-x86_64 (docs/interop.md)")
        return 77
    if not (rxe_pair.SHARE.parent / "build/initrd.gz").exists():
        print("SKIPPED: the lab is not built: tests/programs/interop/lab build")
        return 77
    with open(rxe_pair.SHARE.parent / "run/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # As rxe_pair.
        return measure_in_guest(options.bin)


def measure_in_guest(bin):
    if rxe_pair.lab("status", check=False) == 0:
        print("The lab runs already, with one processor perhaps: tests/programs/interop/lab down")
        return 1
    rxe_pair.provide_tools(bin, rxe_pair.PERFTEST)
    for folder, files in (("bin", ["uroce-broker"]), ("lib", ["libibverbs.so.1"])):
        (rxe_pair.SHARE / "uroce" / folder).mkdir(parents=True, exist_ok=True)
        for name in files:
            shutil.copy2(bin.parent / folder / name, rxe_pair.SHARE / "uroce" / folder)
    os.environ["UROCE_LAB_PROCESSORS"] = "2"
    # Else the guest's kernel asks an emulated timer for the time, for a microsecond and a half.
    os.environ["UROCE_LAB_APPEND"] = "tsc=reliable clocksource=tsc"
    rxe_pair.lab("up")
    try:
        return subprocess.run([rxe_pair.LAB, "hostrun", sys.executable, *sys.argv, "--in-namespace"], check=False).returncode
    finally:
        rxe_pair.lab("down")


if __name__ == "__main__":
    sys.exit(main())
