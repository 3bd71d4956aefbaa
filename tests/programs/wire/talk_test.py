#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""talk_test.py PCAPS: roce_talk.py and cm_talk.py find nothing in good captures, ours and rxe's, and object when one is
tampered with."""

import copy
import pathlib
import sys
import unittest

import cm_talk
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
        """From rxe's the ones at MTU 1024, and where something was lost, the side that saw all that it sent."""
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


ACTIVE, PASSIVE = "10.77.0.11", "10.77.0.12"
RPING = "rxe/cm_rping_v4.pcap"
# The kernel asks its program again when its REP or SIDR_REP was lost for too long, and DREQs that cross are told apart by it
# later than by the capture.
WEAK = {"drop_allrep.atB", "drop_sidrrep.atB", "simul2.atB"}


class CmTalk(unittest.TestCase):
    def test_good_captures(self):
        judged = 0
        for path in (*PCAPS.glob("rxe/*cm_*.pcap"), *PCAPS.glob("rxe_cm/*.pcap")):
            if path.stem in WEAK:
                continue
            for sender in {message.source for message in cm_talk.messages(path)}:
                # Where something was lost on the way, the other side's words cannot be judged.
                if path.stem[-4:] not in (".atA", ".atB") or sender == {"A": ACTIVE, "B": PASSIVE}[path.stem[-1]]:
                    self.assertEqual(cm_talk.complaints(path, sender), [], path.name)
                    judged += 1
        self.assertGreater(judged, 50)

    def found(self, name, change, sender):
        """The complaints about `sender` after `change` of the list of (number, Message or packet)."""
        packets = list(cm_talk.read(PCAPS / name))
        change(packets)
        return cm_talk.complaints_about(packets, sender)

    def objects(self, name, change, sender, text):
        found = self.found(name, change, sender)
        self.assertTrue(any(text in line for line in found), f"{name}: no '{text}' in {found}")

    def test_objections(self):
        def of_kind(packets, kind):
            return next(i for i, (_, p) in enumerate(packets) if getattr(p, "name", "") == kind)

        def without(kind):
            return lambda p: p.pop(of_kind(p, kind))

        def again(kind, later=0, **changes):
            def change(packets):
                at = of_kind(packets, kind)
                copied = copy.deepcopy(packets[at])
                copied[1].time += later
                vars(copied[1]).update(changes)
                packets.insert(at + 1, copied)
            return change

        def asked_again_behind(kind):
            """The REQ, and a REP with another ID."""
            def change(packets):
                request, reply = (copy.deepcopy(packets[of_kind(packets, name)]) for name in ("REQ", "REP"))
                reply[1].fields["local"], reply[1].mad = 77, b""
                at = of_kind(packets, kind) + 1
                packets[at:at] = [request, reply]
            return change

        def other(kind, field):
            return lambda p: p[of_kind(p, kind)][1].fields.update({field: 77})

        for change, sender, text in (
                (without("REQ"), PASSIVE, "REP: nobody has asked"), (without("REP"), ACTIVE, "RTU: 1 of them for 0 REP"),
                (again("RTU"), ACTIVE, "RTU: 2 of them for 1 REP"), (again("DREP"), PASSIVE, "DREP: 2 of them for 1 DREQ"),
                (again("REQ"), ACTIVE, "REQ: again after 0.000 s"), (again("REP", later=4.0), PASSIVE, None),
                (again("REP", later=3.8), PASSIVE, "REP: again after 3.800 s"),
                (again("DREQ", later=4.6, mad=b""), ACTIVE, "DREQ: not what was said before"),
                (asked_again_behind("DREQ"), PASSIVE, "REP: again after DREQ"), (asked_again_behind("DREP"), PASSIVE, None),
                (without("DREQ"), PASSIVE, "DREP: 1 of them for 0 DREQ"), (without("RTU"), ACTIVE, "DREQ: of no connection"),
                (other("DREQ", "qpn"), ACTIVE, "DREQ: of QP 0x4d instead of"), (other("REP", "psn"), ACTIVE, "data begin with PSN"),
                (other("REP", "qpn"), ACTIVE, "of nobody"),
                (lambda p: setattr(p[of_kind(p, "RTU")][1], "tid", "77"), ACTIVE, "RTU: not the request's transaction ID"),
                (lambda p: setattr(p[of_kind(p, "DREP")][1], "tid", "77"), PASSIVE, "DREP: not the DREQ's transaction ID"),
                (lambda p: setattr(p[of_kind(p, "REP")][1], "tclass", 8), PASSIVE, "REP: traffic class 8 instead of 0"),
                (lambda p: p.append(copy.deepcopy(p[0])), ACTIVE, "REQ: again after REP")):
            if text is None:
                self.assertEqual(self.found(RPING, change, sender), [])
            else:
                self.objects(RPING, change, sender, text)
        self.objects("rxe_cm/dup_req.atB.pcap", lambda p: p.pop(1), PASSIVE, "MRA: 1 of them for 1 REQ")
        self.objects("rxe/cm_udaddy_sidr.pcap", again("SIDR_REP"), PASSIVE, "SIDR_REP: 2 of them for 1 SIDR_REQ")
        self.objects("rxe/cm_reject_no_listener.pcap", again("REJ"), PASSIVE, "REJ: 2 of them for 1 REQ")
        # The peer has asked for patience.
        self.objects("rxe_cm/dup_req.atA.pcap", again("MRA", later=8, name="REQ"), ACTIVE, "REQ:")


if __name__ == "__main__":
    unittest.main()
