# SPDX-License-Identifier: Apache-2.0
"""What RC sides may say to each other, checked over a capture: the order of PSNs, retransmissions, acknowledgements.

Knows nothing but the packets, in the order in which one NIC sent and received them. Only what that NIC sent is judged.
A conversation (the two directions of a pair of QPs) is known by its UDP source port, which both sides derive from the QP
numbers; where two conversations share one, the rules that need both directions are left out.
"""
RNR, NAK = 1, 3  # bits 6:5 of the syndrome; 0 = ACK
READ_REQUEST, ATOMICS = 0x0C, (0x13, 0x14)
READ_RESPONSES, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = range(0x0D, 0x11), 0x11, 0x12
PSN_MASK = 0xFFFFFF


def distance(a, b):
    """How far PSN b lies behind PSN a; negative when it lies before."""
    return ((b - a + 0x800000) & PSN_MASK) - 0x800000


def is_request(packet):
    return packet["bth"]["opcode"] < 0x20 and not READ_RESPONSES.start <= packet["bth"]["opcode"] <= ATOMIC_ACKNOWLEDGE


class Requests:
    """The requests that one QP was sent."""

    def __init__(self):
        self.next_psn, self.sent = None, {}

    def complaints(self, packet, mtu):
        psn, opcode = packet["bth"]["psn"], packet["bth"]["opcode"]
        length = packet["reth"]["len"] if opcode == READ_REQUEST else 0
        count = max(1, -(-length // mtu))
        if self.next_psn is None:
            self.next_psn = psn
        ahead = distance(self.next_psn, psn)
        if ahead > 0:
            yield f"PSN 0x{psn:x} leaves out 0x{self.next_psn:x}"
        if distance(self.next_psn, (psn + count) & PSN_MASK) > 0:
            self.next_psn = (psn + count) & PSN_MASK
        if opcode == READ_REQUEST:
            # A retry may ask for less, in other pieces, but each PSN stays what it was: a place in remote memory.
            for i in range(count):
                place = (packet["reth"]["va"] + i * mtu, packet["reth"]["rkey"])
                if self.sent.setdefault((psn + i) & PSN_MASK, place) != place:
                    yield f"READ of PSN 0x{psn + i:x} at another place than before"
        else:
            content = (opcode, packet.get("reth"), packet.get("atomiceth"), packet.get("immdt"), packet["payload"])
            if self.sent.setdefault(psn, str(content)) != str(content):
                yield f"PSN 0x{psn:x} again, and different"


class Responses:
    """What one QP answered."""

    def __init__(self):
        self.answers = {}  # by PSN
        self.acked = self.msn = self.nak_open = self.highest = None
        self.duplicate = False  # Came since the last ACK: may be acknowledged with a PSN of that time.

    def on_request(self, packet, mtu):
        psn = packet["bth"]["psn"]
        answers = max(1, -(-packet["reth"]["len"] // mtu)) if packet["bth"]["opcode"] == READ_REQUEST else 1
        last = (psn + answers - 1) & PSN_MASK
        if self.highest is None or distance(self.highest, last) > 0:
            self.highest = last
        else:
            self.duplicate = True
        if self.nak_open is not None and psn == self.nak_open:
            self.nak_open = None

    def complaints(self, packet, alone):
        psn, opcode = packet["bth"]["psn"], packet["bth"]["opcode"]
        kind = packet["aeth"]["syndrome"] >> 5 & 3 if "aeth" in packet else 0
        if opcode != ACKNOWLEDGE:
            content = (packet["payload"], packet.get("atomicacketh"))
            if self.answers.setdefault(psn, str(content)) != str(content):
                yield f"another answer to PSN 0x{psn:x} than before"
        if alone and kind in (0, RNR) and (self.highest is None or distance(self.highest, psn) > 0):
            yield f"acknowledges PSN 0x{psn:x}, which has not come"
        if opcode == ACKNOWLEDGE and kind == 0:
            if alone and self.acked is not None and distance(self.acked, psn) < 0 and not self.duplicate:
                yield f"ACK of PSN 0x{psn:x} after 0x{self.acked:x}"
            if self.msn is not None and distance(self.msn, packet["aeth"]["msn"]) < 0:
                yield f"MSN {packet['aeth']['msn']} after {self.msn}"
            self.acked, self.msn, self.duplicate = psn, packet["aeth"]["msn"], False
        if kind == NAK and packet["aeth"]["syndrome"] & 31 == 0:
            if alone and self.nak_open == psn:
                yield f"second NAK for PSN 0x{psn:x}, which has not come in between"
            self.nak_open = psn


def complaints(packets, mtu):
    """`packets`: (number, sent by the judged NIC, decoded packet), all of them with the right ICRC. A list of texts."""
    requests, responses, found = {}, {}, []
    qps_of_port = {}
    for _, sent, packet in packets:
        qps_of_port.setdefault(packet["udp"]["source"], set()).add((sent, packet["bth"]["dqpn"]))
    for number, sent, packet in packets:
        port, qpn = packet["udp"]["source"], packet["bth"]["dqpn"]
        if packet["bth"]["opcode"] >= 0x20:
            continue
        alone = len(qps_of_port[port]) <= 2
        if sent and is_request(packet):
            said = requests.setdefault(qpn, Requests()).complaints(packet, mtu)
        elif sent:
            said = responses.setdefault((port, qpn) if not alone else port, Responses()).complaints(packet, alone)
        else:
            if is_request(packet) and alone:
                responses.setdefault(port, Responses()).on_request(packet, mtu)
            continue
        found += [f"packet {number}: {text}" for text in said]
    return found
