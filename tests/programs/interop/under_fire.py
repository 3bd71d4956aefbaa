#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""under_fire.py [--bin DIR] [--keep DIR] [PATTERN...]: uroce against Soft-RoCE on a wire with faults, in both roles.

The sides are those of rxe_pair.py. Between them stands bad_wire.py, which does to their packets what the case's name says:
"client.ipv4.send.drop=send-first#2" is rdma_client on the emulated NIC, sending, and the second packet of the kind "SEND
FIRST" is lost on its way to rxe. Every case demands that the faults really happened, that both sides end well, that every
byte is verified where it arrives, and that every packet that the emulated NIC sent is right. Options and exit status are
those of rxe_pair.py; --keep also keeps what the wire did, as NAME.faults. XRXE marks a case that failed because of a known
fault of rxe, XICRC one in which the ICRC check was fooled, as it can be over IPv4; both are recognised by their traces.
"""

import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import time

import rxe_pair  # First: it says where the other folders' modules are.
import icrc_check
import roce
import roce_talk
import run_pair
import tshark_check
from bad_wire import BadWire
from guest_command import GuestCommand
from rxe_pair import HOST, RxePair, Transfer

# 268 ms: short, because half of the cases wait for it; eight in a row outlast the stand-stills of the translated guest.
SHORT_TIMEOUT = 16
LATE = 400  # ms: later than that timeout, so that a retransmission goes first

QPS = 2
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
TO_EACH_KIND = ("drop={}#2", "drop={}#2:3", "dup={}#2", f"dup={{}}#2:{LATE}", "corrupt={}#2", f"delay={{}}#2:{LATE}",
                "reorder={}#2:2")
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
    ("mixed", LONG, "reorder=ack#1x4:3"),
]
OWN = [
    ("client", "send", "drop=op:send_middle#2,rx.drop=op:nak#1"),
    ("client", "send", "rx.delay=400ms@op:ack#2..3"),
    ("client", "write", "drop=op:write_last#2,dup=op:write_first#3"),
    ("client", "read", "drop=op:read_request#3,rx.drop=op:read_response_middle#5..9,rx.dup=op:read_response_last#4"),
    ("client", "cas", "drop=op:compare_swap#4,rx.drop=op:atomic_ack#6,rx.dup=op:atomic_ack#9"),
    ("server", "send", "rnr=20%"),
    ("server", "send", "rnr=20%,drop=op:rnr#1,dup=op:rnr#3"),
    ("server", "send", "drop=op:ack#2..4,rx.drop=op:send_last#3"),
    ("server", "read", "drop=op:read_response_middle#5..9,rx.dup=op:read_request#3"),
    ("server", "faa", "drop=op:atomic_ack#3..5,rx.drop=op:fetch_add#7"),
    *((role, "mixed", faults) for role in ("client", "server")
      for faults in ("seed=7,loss=1%,rx.loss=1%,ecn=10%",
                     "seed=8,loss=5%,dup=2%,corrupt=1%,rx.loss=5%,rx.dup=2%,rx.corrupt=1%",
                     "seed=9,reorder=5%:4,rx.delay=50us..2ms@20%")),
]
BY_CHANCE = ["drop=1%", "drop=5%", "dup=2%", "dup=5%:50", "reorder=5%", "reorder=5%:4", "corrupt=1%", "delay=5%:10",
             "delay=1%:200", "drop=5%,dup=2%,reorder=5%:4,corrupt=1%"]


class Excuse(Exception):
    """A case failed for a reason that is known and recognised by its traces, and that is no mistake of what was tested."""


class FaultOfRxe(Excuse):
    mark = "XRXE"


class DamagePassed(Excuse):
    """With IPv4 and a peer that numbers its packets, the ICRC check has 16 bits to go by (docs/adr/0006)."""
    mark = "XICRC"


def look_for_late_ack(client):
    """An ACK or NAK that is older than the READ under way and arrives among its responses: rxe's completer takes it for an
    answer to the READ, warns (rxe_comp.c:827), puts the QP into ERR and completes the READ with SUCCESS. What is seen of it:
    a READ "succeeded" with the wrong bytes, and the next WR was flushed although none failed."""
    result = client.result()
    if (" failed with WR_FLUSH_ERR" in (result["error"] or "") and
            re.search(r"READ \d+ brought \d+ wrong bytes", result["verified"].get("first_error", ""))):
        raise FaultOfRxe("a late ACK among READ responses: the READ ends as good, the QP in ERR")


def look_for_passed_damage(packets, damaged):
    """rxe counts its packets, so one whose Identification, recovered from the ICRC, is far from those of the packets before
    and behind it was damaged and passed for another number."""
    ids = [(number, packet["ip"].get("id", 0)) for number, ours, packet in packets if not ours]
    far = lambda a, b: min((a - b) % 65536, (b - a) % 65536) > 4096  # noqa: E731
    for (_, before), (number, this), (_, behind) in zip(ids, ids[1:], ids[2:]):
        if damaged and far(before, this) and far(this, behind) and not far(before, behind):
            raise DamagePassed(f"packet {number} was damaged, and the ICRC check took it for number {this} of rxe's packets")


class UnderFire(Transfer):
    """A transfer while the wire does what `wire` says."""
    timeout = SHORT_TIMEOUT

    def __init__(self, role, family, op, shape, wire, qps=QPS, iterations=10, options=()):
        super().__init__(role, family, op, *shape, qps, iterations, options)
        self.wire = wire
        size = "" if shape == LONG else f".{self.size}B"
        self.name = f"{role}.ipv{family}.{op}{size}.{wire}" + (f".{self.qps}qp" if self.qps != QPS else "")

    def run_on(self, bad_wire, capture, all_ours):
        """Returns a few words; raises AssertionError, or Excuse."""
        bad_wire.arm(self.wire)
        try:
            with RxePair(self, capture) as pair:
                status = pair.client.finish(), pair.server.finish()
        finally:
            faults = bad_wire.disarm()
        pathlib.Path(capture).with_suffix(".faults").write_text("\n".join(faults.log), encoding="ascii")
        for item in faults.items:
            run_pair.check(item.fired, f"no {item.action} happened: {faults.counts}")
        damaged = sum(line.startswith("corrupt to-host ") for line in faults.log)
        packets = read_capture(capture, self.family, all_ours, ours_wrong=0, theirs_wrong=damaged)
        try:
            complaints = roce_talk.complaints(packets, self.mtu)
            run_pair.check(not complaints, "; ".join(complaints[:5]))
            self.check_end(pair, status, faults)
        except AssertionError:
            look_for_passed_damage(packets, damaged)
            raise
        again = pair.ours.result()["nic"]["counters"]["retransmitted_pkts"]
        return f"{len(faults.log)} faults, {again} sent again"

    def check_end(self, pair, status, faults):
        if status != (0, 0):
            # A request that comes again is acknowledged again, at once: that ACK is late, too.
            late = any(re.match("(reorder|delay|dup) (to-guest (ack|nak|rnr)|to-host .*) ", line) for line in faults.log)
            if self.role == "server" and late:
                look_for_late_ack(pair.client)
            run_pair.check(False, f"status {status}; the wire: {'; '.join(faults.log[:20])}", pair.client, pair.server)
        damaged = () if "corrupt" in self.wire else ("icrc_errors", "parse_errors", "wrong_pkey")
        rxe_pair.check_results(self, pair, (*damaged, "retry_exceeded_err"))


class OwnFaults(UnderFire):
    """The wire is good, and the emulated NIC does `faults` by itself (UROCE_FAULTS). Its capture shows what is on the wire,
    thus not what it has lost: the order of its packets cannot be judged from that."""

    def __init__(self, role, op, faults, qps=QPS, iterations=21):
        super().__init__(role, 4, op, LONG, "", qps, iterations)
        self.env = {"UROCE_FAULTS": faults}
        self.name = f"{role}.ipv4.{op}.faults:{faults}" + (f".{self.qps}qp" if self.qps != QPS else "")

    def run_on(self, bad_wire, capture, all_ours):
        with RxePair(self, capture) as pair:
            status = pair.client.finish(), pair.server.finish()
        injected = {name: count for name, count in pair.ours.result()["nic"]["injected_faults"].items() if count}
        run_pair.check(injected, "no faults happened", pair.ours)
        read_capture(capture, self.family, all_ours, ours_wrong=injected.get("corrupt", 0), theirs_wrong=0)
        if status != (0, 0) and self.role == "server" and injected.keys() & {"reorder", "delay", "dup"}:
            look_for_late_ack(pair.client)
        run_pair.check(status == (0, 0), f"status {status}, {injected}", pair.client, pair.server)
        damaged = () if "corrupt" in injected else ("icrc_errors", "parse_errors", "wrong_pkey")
        rxe_pair.check_results(self, pair, (*damaged, "retry_exceeded_err"))
        again = pair.ours.result()["nic"]["counters"]["retransmitted_pkts"]
        return f"{', '.join(f'{name} {count}' for name, count in injected.items())}; {again} sent again"


class PeerGone(UnderFire):
    """From the N-th request on nothing arrives: the client ends with RETRY_EXC_ERR, and if it is ours, in the time that
    timeout and retry-cnt promise, of which IBTA Vol 1, 9.7.6.1.3 allows four times as much."""
    timeout = 14
    PROMISED = 4 * 4.096e-6 * 2**14

    def __init__(self, role, op):
        super().__init__(role, 4, op, LONG, "drop=any#30x*", options=["--retry-cnt", "3"])

    def check_end(self, pair, status, faults):
        run_pair.check(status[0] == 1, f"status {status}", pair.client, pair.server)
        error = pair.client.result()["error"]
        match = re.search(r"failed with RETRY_EXC_ERR .* ([0-9.]+) s after it was posted", error)
        run_pair.check(match, error, pair.client, pair.server)
        if self.role == "client":
            run_pair.check(self.PROMISED <= float(match[1]) + 0.01 <= 4 * self.PROMISED + 0.5, error)


def cases():
    for role in ("client", "server"):
        for family, faults in ((4, TO_EACH_KIND), (6, TO_FEW)):
            for op, shape, kinds in TRAFFIC:
                for fault in faults:
                    for kind in kinds:
                        yield UnderFire(role, family, op, shape, fault.format(kind))
        for op, shape, wire in TWICE:
            yield UnderFire(role, 4, op, shape, wire, iterations=14)
        for op in ("send", "write", "read", "mixed"):
            for seed, wire in enumerate(BY_CHANCE, 1):
                yield UnderFire(role, 4, op, LONG, f"seed={seed},{wire}", iterations=21)
        for op in ("send", "write", "read"):
            yield PeerGone(role, op)
        for whose, op, faults in OWN:
            if whose == role:
                yield OwnFaults(role, op, faults)
        yield OwnFaults(role, "mixed", "blackout=0ms..3ms/12ms", iterations=210)  # Long enough for several of them.
        yield OwnFaults(role, "mixed", "seed=10,loss=5%,dup=2%,corrupt=1%", qps=16)
        yield UnderFire(role, 6, "mixed", LONG, f"seed=5,{BY_CHANCE[-1]}", iterations=21)
        yield UnderFire(role, 4, "mixed", LONG, f"seed=6,{BY_CHANCE[-1]}", qps=16, iterations=21)
        yield UnderFire(role, 4, "mixed", LONG, "seed=7,drop=5%,dup=2%,corrupt=1%", qps=16, iterations=21)


def read_capture(path, family, all_ours, ours_wrong, theirs_wrong):
    """The packets of a capture, as roce_talk.py wants them; those that we sent are also written to `all_ours`. Every one is
    right, but for as many of each side as may have a wrong ICRC."""
    packets, wrong = [], {True: set(), False: set()}
    for number, (_, frame) in enumerate(roce.read_pcap(path), 1):
        ours = frame_source(frame, family) == HOST[family]
        try:
            packet = roce.decode(frame)
        except roce.NotRoce:  # A damaged opcode, for example.
            packet = {"icrc_ok": False}
        if not packet["icrc_ok"]:
            wrong[ours].add(bytes(frame))  # One that is doubled as well comes twice.
            continue
        if ours:
            found = list(icrc_check.complaints(packet, True))
            run_pair.check(not found, f"packet {number}: {found}: {packet}")
            all_ours.write(struct.pack("=4I", 0, 0, len(frame), len(frame)) + frame)
        packets.append((number, ours, packet))
    run_pair.check(len(wrong[True]) <= ours_wrong, f"{len(wrong[True])} wrong packets of ours, {ours_wrong} were damaged")
    run_pair.check(len(wrong[False]) <= theirs_wrong,
                   f"{len(wrong[False])} wrong packets of rxe, {theirs_wrong} were damaged")
    return packets


def frame_source(frame, family):
    at = (26, 30) if family == 4 else (22, 38)
    return str(roce.ipaddress.ip_address(frame[at[0]:at[1]]))


def tshark_objects(path):
    """What tshark finds wrong in a capture, in words; nothing without tshark."""
    if not shutil.which("tshark"):
        print("tshark is not installed, so it has not judged")
        return []
    (packets, complaints), = tshark_check.check([path])
    print(f"tshark: {packets} packets of the emulated NIC, {len(complaints)} complaints")
    return complaints


def guest_lives():
    try:
        return GuestCommand("true", 20).finish()[0] == 0
    except OSError:
        return False


def run_all(chosen, keep, name="under_fire"):
    failed, excused = [], []
    with tempfile.TemporaryDirectory() as scratch, BadWire() as bad_wire:
        with open(f"{scratch}/ours.pcap", "wb") as all_ours:
            all_ours.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
            # The host's addresses are behind another link address than in the run before.
            GuestCommand("ip neighbor flush dev eth0", 20).finish()
            for case in chosen:
                capture = f"{keep or scratch}/{case.name.replace('/', ':').replace('%', 'pct')}.pcap"
                started = time.monotonic()
                try:
                    words = case.run_on(bad_wire, capture, all_ours)
                    print(f"ok      {case.name}: {words}, {time.monotonic() - started:.1f} s", flush=True)
                except Excuse as why:
                    excused.append(case.name)
                    print(f"{why.mark:7} {case.name}: {why}", flush=True)
                except (AssertionError, OSError) as failure:
                    failed.append(case.name)
                    print(f"FAILED  {case.name}: {failure}", flush=True)
                    if not guest_lives():
                        failed.append("the guest is gone (its kernel sometimes ends in a double fault): run the rest again")
                        break
                if not keep and os.path.exists(capture):
                    os.unlink(capture)  # They would fill the disk.
        complaints = tshark_objects(f"{scratch}/ours.pcap")
    if complaints:
        failed.append("tshark: " + "; ".join(complaints[:5]))
    verdict = f"{len(failed)} FAILED: {' '.join(failed)}" if failed else "uroce and Soft-RoCE hold out"
    print(f"{name}: {len(chosen)} cases, {len(excused)} of them excused: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(rxe_pair.main(__doc__, list(cases()), run_all))
