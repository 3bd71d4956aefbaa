#!/usr/bin/env python3
"""cm_pair.py [--bin DIR] [--keep DIR] [PATTERN...]: our connection manager against the kernel's, in both roles.

Programs that connect by RDMA CM, one on the emulated NIC (`uroce run`, with Debian's own librdmacm), the other one in the
lab's guest, on rxe and the kernel's connection manager. "client.ipv6.rping": rping -c is on the emulated NIC. They are cases
of tests/programs/clients/matrix.py. The wire between them is that of under_fire.py, and does what the end of the case's name
says: it loses, doubles and delays each message of connection management. Both programs have to end well and to say what they
should; the packets of the emulated NIC are judged by the ICRC checker, by tshark, and by cm_talk.py, which knows who may say
what, and when. Options and exit status are those of rxe_pair.py.
"""

import collections
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import under_fire  # First: it says where the other folders' modules are.
import cm_talk
import judges
import matrix
import run_client
import run_pair
import rxe_pair
from guest_command import GuestCommand
from rxe_pair import GUEST, HOST, Transfer

RDMACM_UTILS = ["rping", "ucmatose", "udaddy", "cmtime", "rstream", "riostream", "rdma_server", "rdma_client", "rdma_xserver",
                "rdma_xclient"]
CASES = {case.name.removeprefix("cm_"): case for group in ("rdmacm", "rdmacm_perftest") for case in matrix.GROUPS[group]
         if case.name not in ("cm_rcopy", "cm_fio", "cm_ucx_io_demo") and not case.name.endswith("_shared")}
# A request that nobody wants; the program at the other port only has a NIC.
CASES["refused"] = matrix.rdma_cm("refused", "rping -s -a {} -p 7175", "sh -c '! rping -c -a {} -C 1'",
                                  judges.client_says("RDMA_CM_EVENT_REJECTED, error 8"), 0, endless=True)
CASES["rping_endless"] = matrix.rdma_cm("rping_endless", "rping -s -a {} -v", "rping -c -a {} -v", judges.nothing_wrong)
CASES["rping_again_and_again"] = matrix.rdma_cm("rping_again_and_again", "rping -s -P -a {}",
                                                "sh -c 'for i in $(seq 50); do rping -c -a {} -C 1 || exit 1; done'",
                                                judges.nothing_wrong, 50, endless=True)
CASES["cmtime_50"] = CASES["cmtime"]._replace(to="-c 50 -s {}")
CASES["ucmatose_tos"] = CASES["ucmatose"]._replace(server="ucmatose -t 40", to="-t 40 -s {}")
CASES["ucmatose_ack_timeout"] = CASES["ucmatose"]._replace(server="ucmatose -a 20", to="-a 19 -s {}")
CASES["rping_own_qp"] = CASES["rping"]._replace(server="rping -s -q -a {} -v -C 10", to="-c -q -a {} -v -C 10")
CASES["rstream_all"] = CASES["rstream"]._replace(server="rstream -T n -S all -C 10", to="-T n -S all -C 10 -s {}")
# Between its connections perftest's server listens anew, and its client does not wait for it; the guest is slow.
PATIENCE = "delay=req#2x4:1500", "delay=sidr-req:1500"
# What makes servers that listen on all IPv4 addresses speak IPv6. Those of perftest cannot.
TO_SPEAK_IPV6 = {"ucmatose": "-b {}", "udaddy": "-b {}", "rstream": "-b {}", "riostream": "-b {}", "cmtime": "-b {}",
                 "rdma_server": "-s {}", "rping": "-a ::0"}
# Which program says what. rping's client disconnects, and ucmatose's server.
MESSAGES = {"rping_any": ("req", "rep", "rtu", "dreq", "drep"), "ucmatose_migrate": ("dreq", "drep"),
            "udaddy": ("sidr-req", "sidr-rep"), "refused": ("rej",)}
# Messages are repeated after 4.1 or 4.6 s.
FAULTS = ("drop={}", "drop={}:2", "dup={}", "delay={}:300", "delay={}:5000")
FAULTS_OVER_IPV6 = ("drop={}", "dup={}", "delay={}:5000")
# Old messages, while data flow, in timewait, which lasts half a second, and behind it.
OLD_MESSAGES = [*(("rping_any", f"dup={message}:150,delay=read:400") for message in ("req", "rep", "rtu")),
                *(("rping_persistent", f"dup={message}:{ms}") for message in ("dreq", "drep") for ms in (200, 1000))]
# The answer to a message that came twice is lost, or an answer and then a question.
TWICE = ("dup=req,drop=mra", "dup=rep,drop=mra", "drop=rep:2,drop=req#2", "drop=rtu,drop=rep#2", "dup=cm#1x*", "delay=cm#1x*:50",
         "drop=dreq,drop=drep")
# What cannot be with the kernel on the other side. It forgets the DREQ of an id that is destroyed, as rping's client does at
# once: our server would wait for ever. Our server takes the first data for a lost RTU, so no REP is repeated. And the kernel's
# server, when its SIDR_REP comes late or never, takes the repeated request for another one, which udaddy refuses.
NOT_IN_ROLE = {"server": {("rping_any", wire) for wire in ("drop=dreq", "drop=dreq:2", "drop=dreq,drop=drep",
                                                           "drop=rtu,drop=rep#2")},
               "client": {("udaddy", wire.format("sidr-rep")) for wire in ("drop={}", "drop={}:2", "delay={}:5000")}}
TIMED_OUT = 124  # as timeout(1) and the guest's agent have it
# Many connections, and whatever happens to their messages and data.
BY_CHANCE = ("drop=5%", "dup=10%:30", "delay=10%:100", "drop=5%,dup=5%,reorder=5%:4,corrupt=2%")
BY_CHANCE_OF = ("ucmatose", "cmtime_50", "rstream_verify")
UNDER_FIRE = 40  # seconds that a program may need
IPV4_ONLY = {"xclient_xserver"}


class Here:
    """A program on the emulated NIC."""

    def __init__(self, command, capture):
        self.log = tempfile.NamedTemporaryFile(mode="r")
        run = [str(run_pair.BIN / "uroce"), "run", "--addr", rxe_pair.OUR_ADDRESSES, "--pcap", capture, "--"]
        self.process = run_client.start([*run, *shlex.split(command)], self.log.name)

    def wait_until_it_listens(self):
        """A NIC has the address; requests wait a little for the listener."""
        run_client.wait_until_bound(HOST[4], self.process)

    def wait_until_it_says(self, text):
        run_client.wait_until_said(pathlib.Path(self.log.name), text, 1, self.process)

    def finish(self, timeout):
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = TIMED_OUT
        self.kill()
        return status, self.log.read()

    def kill(self):
        run_client.end(self.process)


class InGuest:
    """A program on rxe."""

    def __init__(self, command, timeout):
        command = command.replace("/usr/bin/", "").replace("uroce0", "rxe0")
        self.under_way = GuestCommand(f"{rxe_pair.WITH_PROGRAMS} {command}", timeout)
        self.ended = False

    def wait_until_it_listens(self):
        self.wait_until_listeners("-gt")

    def wait_until_it_says(self, text):
        run_pair.check(self.under_way.wait_for(text), f"the program in the guest does not say '{text}'")

    def finish(self, _):
        self.ended = True
        return self.under_way.finish()

    def kill(self):
        self.under_way.kill()
        if not self.ended:
            self.wait_until_listeners("-eq")
        self.ended = True

    @staticmethod
    def wait_until_listeners(compare):
        """Until there are more listeners in the guest than none, or just as many."""
        ask = f"for i in $(seq 100); do [ $(rdma resource show cm_id | grep -c 'state LISTEN') {compare} 0 ] && exit"
        status, output = GuestCommand(f"{ask}; sleep 0.05; done; exit 1", 20).finish()
        run_pair.check(status == 0, f"listeners in the guest, {compare} 0: {output}")


class ByCm:
    """A case of matrix.py, in one role."""

    def __init__(self, role, family, name, wire="", timeout=run_client.CM_TIMEOUT):
        self.role, self.family, self.case, self.timeout = role, family, CASES[name], timeout
        self.name, self.wire = f"{role}.ipv{family}.{name}" + (f".{wire}" if wire else ""), wire
        self.server, self.client = self.case.server, f"{self.case.command} {self.case.to}"
        if family == 6 and "{}" not in self.server:
            self.server += " " + TO_SPEAK_IPV6[self.server.split("/")[-1].split()[0]]

    def run_on(self, bad_wire, capture, all_ours):
        """Returns a few words; raises AssertionError."""
        bad_wire.arm(self.wire)
        try:
            outputs = self.run(bad_wire, capture)
        finally:
            faults = bad_wire.disarm()
        for item in faults.items:
            run_pair.check(item.fired, f"no {item.action} happened: {faults.counts}")
        try:
            self.case.judge(*outputs)
        except AssertionError as why:
            raise AssertionError(f"{why}\n--- client\n{outputs[0]}\n--- server\n{outputs[1]}") from None
        damaged = sum(line.startswith("corrupt to-host ") for line in faults.log)
        packets = under_fire.read_capture(capture, self.family, all_ours, ours_wrong=0, theirs_wrong=damaged)
        complaints = cm_talk.complaints(capture, HOST[self.family])
        run_pair.check(not complaints, "; ".join(complaints[:5]))
        said = collections.Counter(message.name for message in cm_talk.messages(capture))
        return f"{len(packets)} packets, {', '.join(f'{count} {name}' for name, count in said.items())}"

    def run(self, bad_wire, capture):
        """What the client and the server said."""
        address = (GUEST if self.role == "client" else HOST)[self.family]
        server = self.start("server", self.server.format(address), capture)
        client = None
        try:
            server.wait_until_it_listens()
            client = self.start("client", self.client.format(address), capture)
            client_status, client_output = client.finish(self.timeout)
            if self.case.endless:
                bad_wire.wait_until_idle()
                server.kill()
            server_status, server_output = (0, "") if self.case.endless else server.finish(self.timeout)
        except AssertionError as why:
            raise AssertionError(f"{why}: {self.server}") from None
        finally:
            for side in filter(None, (client, server)):
                side.kill()
        run_pair.check((client_status, server_status) == (0, 0),
                       f"status: client {client_status}, server {server_status}\n--- client\n{client_output}\n"
                       f"--- server\n{server_output}")
        return client_output, server_output

    def start(self, side, command, capture):
        return Here(command, capture) if side == self.role else InGuest(command, self.timeout)


class Killed(ByCm):
    """The `victim` ("client" or "server") gets SIGKILL while pings go to and fro. The other side hears of it at once."""

    def __init__(self, role, family, victim):
        super().__init__(role, family, "rping_endless", "", 10)
        self.victim = victim
        self.name += f".{victim}_killed"

    def run_on(self, bad_wire, capture, all_ours):
        address = (GUEST if self.role == "client" else HOST)[self.family]
        server = self.start("server", self.server.format(address), capture)
        sides = {"server": server}
        try:
            server.wait_until_it_listens()
            sides["client"] = self.start("client", self.client.format(address), capture)
            sides["client"].wait_until_it_says("rdma-ping-30")
            sides.pop(self.victim).kill()
            (survivor, side), = sides.items()
            began = time.monotonic()
            status, output = side.finish(self.timeout)
        finally:
            for side in sides.values():
                side.kill()
        run_pair.check(status != TIMED_OUT and f"{survivor} DISCONNECT EVENT" in output,
                       f"the {survivor}: status {status}, output: {output[-500:]}")
        return f"the {survivor} ended after {time.monotonic() - began:.1f} s"


class OurPair(Transfer):
    """rdma_client and rdma_server with --cm."""
    both_sides = ("--cm",)

    def __init__(self, role, family, op, **more):
        super().__init__(role, family, op, 10001, 1024, **more)
        self.name = f"{role}.ipv{family}.cm.{op}.{self.qps}qp"

    def run_on(self, _, capture, all_ours):
        words = self.run(capture)
        return f"{len(under_fire.read_capture(capture, self.family, all_ours, 0, 0))} packets, {words}"


def faults(family):
    """(program, what the wire does)"""
    for name, said in MESSAGES.items():
        for fault in FAULTS if family == 4 else FAULTS_OVER_IPV6:
            yield from ((name, fault.format(message)) for message in said)
    if family == 4:
        yield from OLD_MESSAGES
        yield from (("rping_any", wire) for wire in TWICE)


def cases():
    for role in ("client", "server"):
        for family in (4, 6):
            for name in CASES:
                if name == "rping_endless":
                    continue
                is_perftest = CASES[name].command in rxe_pair.PERFTEST
                if family == 6 and (is_perftest or name in IPV4_ONLY):
                    continue
                wait = PATIENCE[name.endswith("_c_ud")] if is_perftest and role == "client" else ""
                yield ByCm(role, family, name, wait)
            for seed, wire in enumerate(BY_CHANCE if family == 4 else BY_CHANCE[-1:], 1):
                yield from (ByCm(role, family, name, f"seed={seed},{wire}", UNDER_FIRE) for name in BY_CHANCE_OF)
            yield from (Killed(role, family, victim) for victim in ("client", "server"))
            for op in (*run_pair.OPS, "mixed"):
                yield OurPair(role, family, op)
            yield OurPair(role, family, "mixed", qps=64, iterations=14)
            for name, wire in faults(family):
                if (name, wire) not in NOT_IN_ROLE[role]:
                    yield ByCm(role, family, name, wire, UNDER_FIRE)


def run_all(chosen, keep):
    run_pair.check(GuestCommand("modprobe rdma_ucm", 20).finish()[0] == 0, "the guest has no rdma_ucm")
    return under_fire.run_all(chosen, keep, "cm_pair")


if __name__ == "__main__":
    sys.exit(rxe_pair.main(__doc__, list(cases()), run_all, [*rxe_pair.PERFTEST, *RDMACM_UTILS]))
