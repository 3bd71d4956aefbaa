#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cm_pair.py [--bin DIR] [--keep DIR] [PATTERN...]: our connection manager against the kernel's, in both roles.

Programs that connect by RDMA CM, one on the emulated NIC (`uroce run`, with Debian's own librdmacm), the other one in the
lab's guest, on rxe and the kernel's connection manager. "client.ipv6.rping": rping -c is on the emulated NIC. The cases are
in cm_cases.py, most of them taken from tests/programs/clients/matrix.py. The wire between them is that of under_fire.py, and
does what the end of the case's name says: it loses, doubles and delays each message of connection management. Both programs
have to end well and to say what they should; the packets of the emulated NIC are judged by the ICRC checker, by tshark, and
by cm_talk.py, which knows who may say what, and when. Options and exit status are those of rxe_pair.py.
"""

import collections
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import under_fire  # First: it says where the other folders' modules are.
import cm_cases
import cm_talk
import run_client
import run_pair
import rxe_pair
from guest_command import GuestCommand
from rxe_pair import GUEST, HOST, Transfer

RDMACM_UTILS = ["rping", "ucmatose", "udaddy", "cmtime", "rstream", "riostream", "rdma_server", "rdma_client", "rdma_xserver",
                "rdma_xclient"]
TIMED_OUT = 124  # as timeout(1) and the guest's agent have it
UNDER_FIRE = 90  # seconds that a program may need: lost messages are repeated after 4 s, and a repetition may be lost, too
# What rping says when the kernel answers for a process that is being killed: a NAK, remote access or operational error.
REFUSED = re.compile("cq completion failed status 1[01]$", re.MULTILINE)


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
        self.listeners = max(1, command.count("rping -s"))

    def wait_until_it_listens(self):
        self.wait_until_listeners(f"-ge {self.listeners}")

    def wait_until_it_says(self, text):
        run_pair.check(self.under_way.wait_for(text),
                       f"the program in the guest does not say '{text}': {self.under_way.output[-500:].decode()}")

    def finish(self, _):
        self.ended = True
        return self.under_way.finish()

    def kill(self):
        self.under_way.kill()
        if not self.ended:
            self.wait_until_listeners("-eq 0")
        self.ended = True

    @staticmethod
    def wait_until_listeners(compare):
        """Until the number of listeners in the guest is such."""
        ask = f"for i in $(seq 100); do [ $(rdma resource show cm_id | grep -c 'state LISTEN') {compare} ] && exit"
        status, output = GuestCommand(f"{ask}; sleep 0.05; done; exit 1", 20).finish()
        run_pair.check(status == 0, f"listeners in the guest, {compare}: {output}")


class ByCm:
    """A case of matrix.py, in one role."""

    def __init__(self, role, family, name, wire="", timeout=run_client.CM_TIMEOUT):
        self.role, self.family, self.case, self.timeout = role, family, cm_cases.CASES[name], timeout
        self.name, self.wire = f"{role}.ipv{family}.{name}" + (f".{wire}" if wire else ""), wire
        self.server, self.client = self.case.server, f"{self.case.command} {self.case.to}"
        if family == 6 and "{}" not in self.server:
            self.server += " " + cm_cases.TO_SPEAK_IPV6[self.server.split("/")[-1].split()[0]]

    def run_on(self, bad_wire, capture, all_ours):
        """Returns a few words; raises AssertionError."""
        bad_wire.arm(self.wire)
        try:
            outputs = self.run(bad_wire, capture)
        finally:
            faults = bad_wire.disarm()
        for item in faults.items:
            # A program that has answered already makes an MRA needless.
            run_pair.check(item.fired or item.kinds == {"mra"}, f"no {item.action} happened: {faults.counts}")
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
        server = self.start("server", self.server.replace("{}", address), capture)
        client = None
        try:
            server.wait_until_it_listens()
            client = self.start("client", self.client.replace("{}", address), capture)
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
        super().__init__(role, family, cm_cases.ONLY_KILLED, "", 10)
        self.victim = victim
        self.name += f".{victim}_killed"

    def run_on(self, bad_wire, capture, all_ours):
        address = (GUEST if self.role == "client" else HOST)[self.family]
        server = self.start("server", self.server.replace("{}", address), capture)
        sides = {"server": server}
        try:
            server.wait_until_it_listens()
            sides["client"] = self.start("client", self.client.replace("{}", address), capture)
            sides["client"].wait_until_it_says("rdma-ping-30")
            sides.pop(self.victim).kill()
            (survivor, side), = sides.items()
            began = time.monotonic()
            status, output = side.finish(self.timeout)
        finally:
            for side in sides.values():
                side.kill()
        heard = f"{survivor} DISCONNECT EVENT" in output or REFUSED.search(output)
        run_pair.check(status != TIMED_OUT and heard, f"the {survivor}: status {status}, output: {output}")
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


def cases():
    for role in ("client", "server"):
        for family in (4, 6):
            for name, wire in cm_cases.plain(role, family):
                # Fifty starts of a program in the guest take 16 s when the host has time for it.
                timeout = UNDER_FIRE if name == "rping_again_and_again" else run_client.CM_TIMEOUT
                yield ByCm(role, family, name, wire, timeout)
            yield from (Killed(role, family, victim) for victim in ("client", "server"))
            for op in (*run_pair.OPS, "mixed"):
                yield OurPair(role, family, op)
            yield OurPair(role, family, "mixed", qps=64, iterations=14)
            for name, wire in cm_cases.faults(role, family):
                yield ByCm(role, family, name, wire, UNDER_FIRE)


def run_all(chosen, keep):
    run_pair.check(GuestCommand("modprobe rdma_ucm", 20).finish()[0] == 0, "the guest has no rdma_ucm")
    return under_fire.run_all(chosen, keep, "cm_pair")


if __name__ == "__main__":
    sys.exit(rxe_pair.main(__doc__, list(cases()), run_all, [*rxe_pair.PERFTEST, *RDMACM_UTILS]))
