#!/usr/bin/env python3
"""under_fire.py [--bin DIR] [--keep DIR] [PATTERN...]: uroce against Soft-RoCE on a wire with faults, in both roles.

The sides are those of rxe_pair.py. Between them stands bad_wire.py, which does to their packets what the case's name says:
"client.ipv4.send.drop=send-first#2" is rdma_client on the emulated NIC, sending, and the second packet of the kind "SEND
FIRST" is lost on its way to rxe. Every case demands that the faults really happened, that both sides end well, that every
byte is verified where it arrives, and that every packet that the emulated NIC sent is right. Options and exit status are
those of rxe_pair.py. XRXE marks a case that failed because of a known fault of rxe.
"""

import fnmatch
import os
import sys
import tempfile
import time

import rxe_pair
from bad_wire import BadWire
from rxe_pair import HOST, RxePair, Transfer, icrc_check, roce, roce_talk, run_pair

# 134 ms: short, because half of the cases wait for it; eight in a row outlast the stand-stills of the translated guest.
SHORT_TIMEOUT = 15
LATE = 300  # ms: later than that timeout, so that a retransmission goes first

# Operation, size and path MTU, and the kinds of packets that this makes the two sides send.
LONG, SHORT = (10001, 1024), (700, 1024)
TRAFFIC = [
    ("send", LONG, ("send-first", "send-middle", "send-last")),
    ("send", SHORT, ("send-only", "ack")),
    ("write", LONG, ("write-first", "write-middle", "write-last")),
    ("write", SHORT, ("write-only",)),
    ("read", LONG, ("read", "response-first", "response-middle", "response-last")),
    ("read", SHORT, ("response-only",)),
    ("cas", SHORT, ("cas", "atomic-ack")),
    ("faa", SHORT, ("faa", "atomic-ack")),
]
TO_EACH_KIND = ("drop={}#2", "drop={}#2:3", "dup={}#2", f"dup={{}}#2:{LATE}", "corrupt={}#2", f"delay={{}}#2:{LATE}", "reorder={}#2:2")
TO_FEW = ("drop={}#2", "corrupt={}#2")
# What answers a lost packet is lost as well; many packets in a row.
TWICE = [
    ("send", LONG, "drop=send-middle#2,drop=nak"),
    ("send", LONG, "drop=send-middle#2,dup=nak"),
    ("send", LONG, f"drop=send-middle#2,delay=nak:{LATE}"),
    ("send", LONG, "drop=send-first#2,drop=send-last#3,drop=ack#4"),
    ("send", LONG, "drop=any#20x12"),
    ("write", LONG, "drop=write-last#2,drop=nak"),
    ("write", LONG, "drop=any#20x12"),
    ("read", LONG, "drop=read#2,drop=response-last#3"),
    ("read", LONG, "drop=response-middle#7x5"),
    ("read", LONG, "drop=any#20x12"),
    ("cas", SHORT, "drop=cas#3x2,drop=atomic-ack#4x2"),
    ("mixed", LONG, "drop=any#40x12"),
]
BY_CHANCE = ["drop=1%", "drop=5%", "dup=2%", "dup=5%:50", "reorder=5%", "reorder=5%:4", "corrupt=1%", "delay=5%:10", "delay=1%:200",
             "drop=5%,dup=2%,reorder=5%:4,corrupt=1%"]


class UnderFire(Transfer):
    """A transfer while the wire does what `wire` says; `our_faults` is what the emulated NIC does by itself."""
    timeout = SHORT_TIMEOUT

    def __init__(self, role, family, op, shape, wire, **options):
        super().__init__(role, family, op, *shape, **options)
        self.wire = wire
        size = "" if shape == LONG else f".{self.size}B"
        self.name = f"{role}.ipv{family}.{op}{size}.{wire}" + (f".{self.qps}qp" if self.qps != QPS else "")

    def run_on(self, bad_wire, capture):
        """Returns a few words; raises AssertionError."""
        bad_wire.arm(self.wire)
        try:
            with RxePair(self, capture) as pair:
                status = pair.client.finish(), pair.server.finish()
                faults = bad_wire.disarm()
                injected = "injected: " + "; ".join(faults.log[:20])
                run_pair.check(status == (0, 0), f"status {status}; {injected}", pair.client, pair.server)
                rxe_pair.check_results(self, pair, self.nic_errors())
        finally:
            bad_wire.disarm()
        for item in faults.items:
            run_pair.check(faults.counts[item.action] > 0, f"no {item.action} happened: {faults.counts}")
        counters = pair.ours.result()["nic"]["counters"]
        check_capture(capture, self, faults, counters)
        return f"{len(faults.log)} faults, {counters['retransmitted_pkts']} sent again"

    def nic_errors(self):
        """Counters that must be zero all the same."""
        damaged = () if "corrupt" in self.wire else ("icrc_errors", "parse_errors", "wrong_pkey")
        return (*damaged, "retry_exceeded_err")


QPS = 2


def cases():
    for role in ("client", "server"):
        for family, faults in ((4, TO_EACH_KIND), (6, TO_FEW)):
            for op, shape, kinds in TRAFFIC:
                for fault in faults:
                    for kind in kinds:
                        yield UnderFire(role, family, op, shape, fault.format(kind), qps=QPS, iterations=10)
        for op, shape, wire in TWICE:
            yield UnderFire(role, 4, op, shape, wire, qps=QPS, iterations=14)
        for op in ("send", "write", "read", "mixed"):
            for seed, wire in enumerate(BY_CHANCE, 1):
                yield UnderFire(role, 4, op, LONG, f"seed={seed},{wire}", qps=QPS, iterations=21)
        yield UnderFire(role, 6, "mixed", LONG, f"seed=5,{BY_CHANCE[-1]}", qps=QPS, iterations=21)
        yield UnderFire(role, 4, "mixed", LONG, f"seed=6,{BY_CHANCE[-1]}", qps=16, iterations=21)


def check_capture(path, case, faults, counters):
    """Every packet that we sent is right, and what a requester and a responder may say. Of the guest's packets as many
    have a wrong ICRC as were damaged on their way to us."""
    packets, wrong = [], 0
    for number, (_, frame) in enumerate(roce.read_pcap(path), 1):
        ours = frame_source(frame, case.family) == HOST[case.family]
        try:
            packet = roce.decode(frame)
        except roce.NotRoce as why:
            run_pair.check(not ours, f"packet {number}: {why}")
            wrong += 1  # A damaged opcode, for example.
            continue
        if ours:
            found = list(icrc_check.complaints(packet, True)) + ([] if packet["icrc_ok"] else ["wrong ICRC"])
            run_pair.check(not found, f"packet {number}: {found}: {packet}")
        elif not packet["icrc_ok"]:
            wrong += 1
            continue
        packets.append((number, ours, packet))
    damaged = sum(line.startswith("corrupt to-host") for line in faults.log)
    run_pair.check(wrong <= damaged, f"{wrong} wrong packets came from the guest, {damaged} were damaged")
    complaints = roce_talk.complaints(packets, case.mtu)
    run_pair.check(not complaints, "; ".join(complaints[:5]))


def frame_source(frame, family):
    at = (26, 30) if family == 4 else (22, 38)
    return str(roce.ipaddress.ip_address(frame[at[0]:at[1]]))


def known_fault_of_rxe(case):
    return next((why for pattern, why in FAULTS_OF_RXE if fnmatch.fnmatch(case.name, pattern)), None)


# What a case may fail of, and why it is not ours. Patterns are those of the names.
FAULTS_OF_RXE = []


def run_all(chosen, keep):
    failed, excused, injected = [], [], 0
    with tempfile.TemporaryDirectory() as scratch, BadWire() as bad_wire:
        for case in chosen:
            capture = f"{keep or scratch}/{case.name}.pcap".replace("%", "pct")
            started = time.monotonic()
            try:
                words = case.run_on(bad_wire, capture)
                print(f"ok      {case.name}: {words}, {time.monotonic() - started:.1f} s", flush=True)
            except (AssertionError, OSError) as failure:
                why = known_fault_of_rxe(case)
                (excused if why else failed).append(case.name)
                print(f"XRXE    {case.name}: {why}" if why else f"FAILED  {case.name}: {failure}", flush=True)
            if not keep and os.path.exists(capture):
                os.unlink(capture)
    verdict = f"{len(failed)} FAILED: {' '.join(failed)}" if failed else "uroce and Soft-RoCE hold out"
    print(f"under_fire: {len(chosen)} cases, {len(excused)} of them fail because of rxe: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(rxe_pair.main(__doc__, list(cases()), run_all))
