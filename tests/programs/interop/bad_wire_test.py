#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bad_wire_test.py [TEST...]: wire_faults.py and bad_wire.py without a guest. Exit status 77: no permission for a network."""

import fcntl
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "wire"))
import bad_wire  # noqa: E402
import roce  # noqa: E402
from wire_faults import RELEASE_AFTER, WireFaults, look_at  # noqa: E402

CAPTURES = HERE.parents[2] / "pcaps/rxe"


def frames(name):
    return [frame for _, frame in roce.read_pcap(CAPTURES / f"{name}.pcap")]


SEND = frames("rc_send_3mtu_mtu1024")  # first, middle, last, and an ACK
NOT_ROCE = b"\xff" * 12 + b"\x08\x06" + bytes(46)


def of_ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


class Rules(unittest.TestCase):
    def kinds(self, name):
        return [packet.kind for packet in map(look_at, frames(name)) if packet]  # UD is nothing to look at.

    def play(self, specification, sent, direction="there"):
        """What comes out, frame by frame, when nothing is waited for."""
        self.faults = WireFaults(specification)
        return [self.faults.take(direction, frame, now=0) for frame in sent]

    def test_every_kind_is_recognised(self):
        for name, kinds in {
                "rc_send_3mtu_mtu1024": "send-first send-middle send-last ack", "rc_send_1_mtu1024": "send-only ack",
                "rc_send_imm_multi": "send-first send-middle send-last ack", "rc_send_imm_0": "send-only ack",
                "rc_send_inv_multi": "send-first send-middle send-last ack", "rc_send_inv_mr": "send-only ack",
                "rc_write_imm_multi": "write-first write-middle write-last ack", "rc_write_imm_0": "write-only ack",
                "v6_rc_write_3000": "write-first write-middle write-last ack", "rc_write_1_mtu1024": "write-only ack",
                "v6_rc_read_3000": "read response-first response-middle response-last",
                "rc_read_1_mtu1024": "read response-only", "rc_cas_match": "cas atomic-ack", "v6_rc_faa_8": "faa atomic-ack",
                "rc_rnr_retry0": "send-only rnr", "rc_err_read_bad_rkey": "read send-only nak",
                "cm_reject_no_listener": "req rej", "cm_udaddy_sidr": "sidr-req sidr-rep",
                "../rxe_cm/dup_req.atB": "req req mra rep rtu dreq drep"}.items():
            self.assertEqual(self.kinds(name), kinds.split(), name)
        self.assertIsNone(look_at(NOT_ROCE))

    def test_cut_frames_are_no_packets(self):
        for frame in (SEND[0], frames("v6_rc_send_1")[0]):
            for length in range(len(frame)):
                self.assertIsNone(look_at(frame[:length]))

    def test_nothing_happens_unasked(self):
        for specification in ("", "drop=0%", "drop=read", "drop=send-first#2"):
            self.assertEqual(self.play(specification, [*SEND, NOT_ROCE]), [[frame] for frame in (*SEND, NOT_ROCE)])
            self.assertEqual(sum(self.faults.counts.values()), 0)

    def test_drop(self):
        self.assertEqual(self.play("drop=send-middle", SEND * 2), [[SEND[0]], [], *[[frame] for frame in (*SEND[2:], *SEND)]])
        self.assertEqual(self.play("drop=ack#2", SEND * 2)[3::4], [[SEND[3]], []])
        self.assertEqual(self.play("drop=ack#2x2", SEND[3:] * 4), [[SEND[3]], [], [], [SEND[3]]])
        self.assertEqual(self.play("drop=request#2x*", SEND * 2), [[SEND[0]], [], [], [SEND[3]], [], [], [], [SEND[3]]])
        self.assertEqual(self.play("drop=100%", [*SEND, NOT_ROCE]), [[], [], [], [], [NOT_ROCE]])
        self.assertEqual(self.faults.counts["drop"], 4)

    def test_drop_of_retransmissions(self):
        other = bytearray(SEND[1])
        other[14 + 20 + 8 + 11] ^= 1  # the PSN
        sent = [SEND[1], bytes(other), SEND[1], SEND[1]]
        self.assertEqual(self.play("drop=send-middle:2", sent), [[], [sent[1]], [], [sent[3]]])

    def test_a_message_sent_again_has_a_new_psn(self):
        sent = frames("loss_cm_req.atA")[:3]  # REQ, the same one again, REP
        self.assertEqual(self.play("drop=req", sent), [[], [sent[1]], [sent[2]]])
        self.assertEqual(self.play("drop=req:2", sent), [[], [], [sent[2]]])
        self.assertEqual(self.play("drop=cm#2x*", sent), [[sent[0]], [], []])

    def test_duplicate_and_delay(self):
        self.assertEqual(self.play("dup=send-last", SEND)[2], [SEND[2], SEND[2]])
        self.assertEqual(self.play("dup=send-last:30", SEND)[2], [SEND[2]])
        self.assertEqual(self.faults.next_due(), 0.030)
        self.assertEqual(self.faults.due(0.030), [("there", SEND[2])])
        self.assertEqual(self.play("delay=send-last:30,delay=ack:10", SEND)[2:], [[], []])
        self.assertEqual(self.faults.due(0.009), [])
        self.assertEqual(self.faults.due(1), [("there", SEND[3]), ("there", SEND[2])])
        self.assertIsNone(self.faults.next_due())

    def test_reorder(self):
        self.assertEqual(self.play("reorder=send-first:2", SEND), [[], [SEND[1]], [SEND[2], SEND[0]], [SEND[3]]])
        self.assertEqual(self.play("reorder=send-first", SEND[:1]), [[]])
        self.assertEqual(self.faults.take("back", SEND[3], now=0), [SEND[3]])
        self.assertEqual(self.faults.due(RELEASE_AFTER), [("there", SEND[0])])

    def test_corruption_spoils_the_icrc_and_nothing_else(self):
        for seed in range(200):
            for sent in (frames("rc_send_1_mtu1024")[0], frames("v6_rc_send_1")[0]):
                (damaged,), = self.play(f"seed={seed},corrupt=any", [sent])
                self.assertEqual(sum(a != b for a, b in zip(sent, damaged, strict=True)), 1)
                self.assertEqual(damaged[:look_at(sent).begin], sent[:look_at(sent).begin])
                try:
                    self.assertFalse(roce.decode(damaged)["icrc_ok"])
                except roce.NotRoce:
                    pass  # as an opcode that does not exist

    def test_chance_is_in_the_seed(self):
        specification = "drop=20%,dup=10%,corrupt=10%,reorder=10%,delay=10%"
        once, again = self.play("seed=3," + specification, SEND * 500), self.play("seed=3," + specification, SEND * 500)
        self.assertEqual(once, again)
        self.assertNotEqual(once, self.play("seed=4," + specification, SEND * 500))
        for action, count in self.faults.counts.items():
            self.assertTrue(100 < count < 500, (action, count))

    def test_nonsense_is_refused(self):
        for text in ("drop", "lose=1%", "drop=send", "drop=ack#x", "delay=5", "drop=1%:x", "seed=x"):
            with self.assertRaises(ValueError, msg=text):
                WireFaults(text)


class Wire(unittest.TestCase):
    """The forwarder, in a network namespace of its own; the guest is a tap device that this test holds."""

    def setUp(self):
        self.guest = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.guest, bad_wire.TUNSETIFF,
                    struct.pack("16sH22x", bad_wire.GUEST_DEVICE.encode(), bad_wire.IFF_TAP | bad_wire.IFF_NO_PI))
        bad_wire.ip("link", "set", bad_wire.GUEST_DEVICE, "mtu", str(bad_wire.MTU), "up")
        self.addCleanup(os.close, self.guest)

    def test_frames_pass_and_are_lost(self):
        with bad_wire.BadWire() as wire, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
            mac = json.loads(of_ip("-json", "link", "show", bad_wire.HOST_DEVICE))[0]["address"]
            bad_wire.ip("neighbor", "add", "10.77.0.2", "lladdr", "02:00:00:00:00:02", "dev", bad_wire.HOST_DEVICE)
            host.bind(("10.77.0.1", roce.ROCE_PORT))
            host.settimeout(10)
            packets = [frame[14 + 20 + 8:] for frame in SEND]
            for packet in packets:
                host.sendto(packet, ("10.77.0.2", roce.ROCE_PORT))
            self.assertEqual(self.received_by_guest(4), packets)
            wire.arm("drop=send-middle,dup=ack,delay=send-last:1")
            for packet in packets:
                host.sendto(packet, ("10.77.0.2", roce.ROCE_PORT))
            self.assertEqual(sorted(self.received_by_guest(4)), sorted([packets[0], packets[2], packets[3], packets[3]]))
            self.assertEqual(wire.disarm().counts, {"drop": 1, "dup": 1, "corrupt": 0, "delay": 1, "reorder": 0})
            # The way back: the same packets, addressed to the host.
            wire.arm("drop=send-middle")
            for frame in SEND:
                os.write(self.guest, self.readdressed(frame, bytes.fromhex(mac.replace(":", ""))))
            self.assertEqual([host.recv(9000) for _ in range(3)], [packets[0], packets[2], packets[3]])
        addresses = of_ip("address", "show", bad_wire.GUEST_DEVICE)
        self.assertIn("10.77.0.1/24", addresses)
        self.assertIn("fd77::1/64", addresses)

    def received_by_guest(self, count):
        """The RoCE part of so many RoCE packets; others (neighbour discovery) are left out."""
        found = []
        while len(found) < count:
            self.assertTrue(select.select([self.guest], [], [], 10)[0], f"only {len(found)} of {count} packets")
            frame = os.read(self.guest, 9100)
            packet = look_at(frame)
            if packet:
                found.append(frame[packet.begin:packet.end])
        return found

    @staticmethod
    def readdressed(frame, mac):
        header = bytearray(frame[14:34])
        header[12:20] = socket.inet_aton("10.77.0.2") + socket.inet_aton("10.77.0.1")
        header[10:12] = bytes(2)
        header[10:12] = roce.ipv4_checksum(header).to_bytes(2, "big")
        return mac + bytes.fromhex("020000000002") + frame[12:14] + bytes(header) + frame[34:]


if __name__ == "__main__":
    # Once more in a network namespace of its own, as root there.
    if "BAD_WIRE_TEST_INSIDE" not in os.environ:
        unshare = ["unshare", "-n" if os.geteuid() == 0 else "-rn"]
        if subprocess.run([*unshare, "sh", "-c", "[ -w /dev/net/tun ]"], stderr=subprocess.DEVNULL, check=False).returncode:
            print("SKIPPED: no permission to make a network namespace with a tap device")
            sys.exit(77)
        os.environ["BAD_WIRE_TEST_INSIDE"] = "1"
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])
    unittest.main()
