#!/usr/bin/env python3
"""talk_test.py PCAPS: roce_talk.py finds nothing in good captures, ours and rxe's, and objects when one is tampered with."""

import copy
import pathlib
import sys
import unittest

import roce
import roce_talk

PCAPS = pathlib.Path(sys.argv.pop())
MTU = 1024
SEND = "rxe/rc_send_3mtu_mtu1024.pcap"  # first, middle, last, and an ACK
LOSS = "rxe/loss_send_middle.atA.pcap"


def load(name):
    """(number, decoded packet) of all packets with a right ICRC."""
    packets = []
    for number, (_, frame) in enumerate(roce.read_pcap(PCAPS / name), 1):
        try:
            packet = roce.decode(frame)
        except roce.NotRoce:
            continue
        if packet["icrc_ok"]:
            packets.append((number, packet))
    return packets


def complaints(packets, sender):
    return roce_talk.complaints([(number, packet["ip"]["source"] == sender, packet) for number, packet in packets], MTU)


class Talk(unittest.TestCase):
    def test_good_captures(self):
        """Of rxe's the ones at MTU 1024, and where something was lost, the side that saw all that it sent."""
        names = [path.name for path in PCAPS.glob("*.pcap")]
        names += [f"rxe/{path.name}" for path in (PCAPS / "rxe").glob("rc_*.pcap") if "mtu" not in path.name]
        self.assertGreater(len(names), 60)
        for name in names:
            packets = load(name)
            for sender in {packet["ip"]["source"] for _, packet in packets}:
                self.assertEqual(complaints(packets, sender), [], name)
        for path in (PCAPS / "rxe").glob("*.atA.pcap"):
            self.assertEqual(complaints(load(f"rxe/{path.name}"), "10.77.0.11"), [], path.name)

    def objects(self, name, change, text):
        """`change` gets the decoded packets of a capture; then someone's words must draw a complaint with `text`."""
        packets = copy.deepcopy(load(name))
        change(packets)
        found = [line for sender in {p["ip"]["source"] for _, p in packets} for line in complaints(packets, sender)]
        self.assertTrue(any(text in line for line in found), f"{name}: no '{text}' in {found}")

    def test_requests(self):
        self.objects(SEND, lambda p: p.pop(1), "leaves out")
        again = lambda change: lambda p: (p.insert(1, copy.deepcopy(p[0])), change(p[1][1]))  # noqa: E731
        self.objects(SEND, again(lambda p: p.update(payload=b"other")), "again, and different")
        self.objects("rxe/rc_write_3mtu+5_mtu1024.pcap", again(lambda p: p["reth"].update(va=8)), "again, and different")
        self.objects("rxe/rc_cas_match.pcap", again(lambda p: p["atomiceth"].update(compare=8)), "again, and different")
        self.objects("rxe/rc_read_3mtu+5_mtu1024.pcap", again(lambda p: p["reth"].update(va=8)), "at another place")

    def test_a_duplicate_may_be_acknowledged_as_of_its_time(self):
        packets = load(SEND)
        first, ack = packets[0], copy.deepcopy(packets[-1])
        ack[1]["bth"]["psn"] = first[1]["bth"]["psn"]
        self.assertEqual(complaints([*packets, first, ack], ack[1]["ip"]["source"]), [])

    def test_responses(self):
        self.objects(SEND, lambda p: p[-1][1]["bth"].update(psn=p[-1][1]["bth"]["psn"] + 1), "has not come")
        other = lambda p: (p.append(copy.deepcopy(p[-1])), p[-1][1]["atomicacketh"].update(original=99))  # noqa: E731
        self.objects("rxe/rc_cas_match.pcap", other, "another answer")
        before = lambda p: (p.append(copy.deepcopy(p[-1])), p[-1][1]["aeth"].update(msn=0))  # noqa: E731
        self.objects(SEND, before, "MSN 0 after")
        back = lambda p: (p.append(copy.deepcopy(p[-1])), p[-1][1]["bth"].update(psn=p[0][1]["bth"]["psn"]))  # noqa: E731
        self.objects(SEND, back, "ACK of PSN")
        nak = next(i for i, (_, p) in enumerate(load(LOSS)) if p.get("aeth", {}).get("syndrome") == 0x60)
        self.objects(LOSS, lambda p: p.insert(nak, p[nak]), "second NAK")


if __name__ == "__main__":
    unittest.main()
