# SPDX-License-Identifier: Apache-2.0
"""What connection managers may say to each other, checked over a capture: who answers what, what is said again and when,
and that data go to the QP and begin with the PSN that were agreed upon.

Knows nothing but the packets, in the order in which one NIC sent and received them. Only what that NIC sent is judged.
"""
import collections

import roce
import roce_talk

NAMES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ",
         0x18: "SIDR_REP"}
MANAGEMENT_QPN, HEADER = 1, 24

# name: (offset in bits behind the MAD header, width)
IDS = {"local": (0, 32), "remote": (32, 32)}
FIELDS = {
    "REQ": {"local": (0, 32), "qpn": (256, 24), "remote_timeout": (344, 5), "psn": (352, 24), "local_timeout": (376, 5),
            "tclass": (736, 8)},
    "MRA": {**IDS, "about": (64, 2), "timeout": (72, 5)}, "REJ": {**IDS, "about": (64, 2), "reason": (80, 16)},
    "REP": {**IDS, "qpn": (96, 24), "psn": (160, 24)}, "RTU": IDS, "DREQ": {**IDS, "qpn": (64, 24)}, "DREP": IDS,
    "SIDR_REQ": {"local": (0, 32)}, "SIDR_REP": {"remote": (0, 32), "status": (32, 8)},
}
ABOUT_REQ, ABOUT_REP = 0, 1
MOST_SENDS = 16
SHORTEST_WAIT = 4.096  # seconds until anything is said again


class Message:
    def __init__(self, time, packet):
        self.time, self.source, self.mad = time / 1e9, packet["ip"]["source"], bytes(packet["payload"])
        assert len(self.mad) == 256, f"a message of {len(self.mad)} bytes"
        assert self.mad[:4] == bytes([1, 7, 2, 3]), f"a MAD header of {self.mad[:4].hex()}"
        self.name = NAMES.get(int.from_bytes(self.mad[16:18], "big"), "?")
        self.tid, self.tclass = self.mad[8:16].hex(), packet["ip"]["tclass"]
        data = self.mad[HEADER:]
        self.fields = {field: roce.bits(data, *place) for field, place in FIELDS.get(self.name, {}).items()}

    def get(self, field):
        return self.fields.get(field, 0)


def read(path):
    """(number, Message or decoded packet) of all RoCE packets with a right ICRC."""
    for number, (time, frame) in enumerate(roce.read_pcap(path), 1):
        try:
            packet = roce.decode(frame)
        except roce.NotRoce:
            continue
        if packet["icrc_ok"]:
            yield number, Message(time, packet) if packet["bth"]["dqpn"] == MANAGEMENT_QPN else packet


def messages(path):
    return [message for _, message in read(path) if isinstance(message, Message)]


def seconds(code):
    return 2 ** (code - 8) / 1000


class Conversation:
    """A connection, or a question by SIDR, seen from the judged NIC. `said` and `heard`: its messages, by name."""

    def __init__(self):
        self.said, self.heard = collections.defaultdict(list), collections.defaultdict(list)
        self.not_before = {}  # An MRA has asked for patience: name of the message, time.

    def on_heard(self, message):
        self.heard[message.name].append(message)
        if message.name == "MRA":
            waits = "REQ" if message.get("about") == ABOUT_REQ else "REP"
            self.not_before[waits] = message.time + seconds(message.get("timeout"))

    @property
    def request(self):
        return next(iter(self.said["REQ"] or self.heard["REQ"] or self.said["SIDR_REQ"] or self.heard["SIDR_REQ"]), None)

    @property
    def is_over(self):
        """Managers then forget the request, the kernel's as ours: one that was under way for longer makes a new connection."""
        return bool(self.said["DREP"] or self.heard["DREP"])

    def of_peer(self, field):
        return next((message.get(field) for message in self.heard["REQ"] + self.heard["REP"]), None)

    def complaints(self, message):
        """What is wrong with this message of ours."""
        name = message.name
        yield from getattr(self, "on_" + name.lower(), lambda _: ["no such message"])(message)
        if name in ("REP", "RTU", "MRA", "SIDR_REP") and self.request and message.tid != self.request.tid:
            yield "not the request's transaction ID"
        if self.request and self.request.name == "REQ" and message.tclass != self.request.get("tclass"):
            yield f"traffic class {message.tclass} instead of {self.request.get('tclass')}"
        if name in ("REQ", "REP", "DREQ", "SIDR_REQ"):
            yield from self.again(message)
        self.said[name].append(message)

    def again(self, message):
        said = self.said[message.name]
        if not said:
            return
        if message.mad != said[0].mad:
            yield "not what was said before"
        if len(said) >= MOST_SENDS:
            yield f"said {len(said) + 1} times"
        if message.time < max(said[-1].time + 0.95 * SHORTEST_WAIT, self.not_before.get(message.name, 0)):
            yield f"again after {message.time - said[-1].time:.3f} s"

    def unless_heard(self, *names):
        return [f"again after {name}" for name in names if self.heard[name]]

    def answers(self, name, question, spare=0):
        """As many answers as there were questions, but for the first `spare` of them."""
        if len(self.said[name]) >= len(self.heard[question]) - spare:
            yield f"{len(self.said[name]) + 1} of them for {len(self.heard[question])} {question}"

    def on_req(self, _):
        return self.unless_heard("REP", "REJ")

    def on_rep(self, _):
        yield from self.unless_heard("RTU", "REJ", "DREQ")
        if not self.heard["REQ"]:
            yield "nobody has asked"

    def on_rtu(self, _):
        return self.answers("RTU", "REP")

    def on_mra(self, message):
        return self.answers("MRA", "REQ" if message.get("about") == ABOUT_REQ else "REP", spare=1)

    def on_rej(self, message):
        if message.get("about") == ABOUT_REQ:
            return self.answers("REJ", "REQ")
        return [] if self.heard["REP"] or self.said["REP"] or self.said["REQ"] else ["of nothing"]

    def on_dreq(self, message):
        yield from self.unless_heard("DREP", "DREQ")
        if not self.said["RTU"] and not self.said["REP"]:
            yield "of no connection"
        if message.get("qpn") != self.of_peer("qpn"):
            yield f"of QP 0x{message.get('qpn'):x} instead of 0x{self.of_peer('qpn') or 0:x}"

    def on_drep(self, message):
        yield from self.answers("DREP", "DREQ")
        if message.tid not in [heard.tid for heard in self.heard["DREQ"]]:
            yield "not the DREQ's transaction ID"

    def on_sidr_req(self, _):
        return self.unless_heard("SIDR_REP")

    def on_sidr_rep(self, message):
        yield from self.answers("SIDR_REP", "SIDR_REQ")
        if self.said["SIDR_REP"] and message.mad != self.said["SIDR_REP"][0].mad:
            yield "not what was said before"

    def data_complaints(self, psn):
        """The first request to the peer's QP."""
        if psn != self.of_peer("psn"):
            yield f"data begin with PSN 0x{psn:x}, not with 0x{self.of_peer('psn'):x}"
        if not self.said["REP"] and not self.heard["REP"]:
            yield "data before the REP"


class Table:
    """All conversations, by the IDs of the judged NIC and of its peers, whichever are known."""

    def __init__(self):
        self.of_id, self.data = {}, {}

    def find(self, ours, peers):
        keys = [key for key in (("ours", ours), ("peers", peers)) if key[1]]
        found = next((self.of_id[key] for key in keys if key in self.of_id), None) or Conversation()
        for key in keys:
            self.of_id.setdefault(key, found)
        return found

    def by_peers_qpn(self, qpn):
        return next((talk for talk in self.of_id.values() if talk.of_peer("qpn") == qpn), None)

    def complaints(self, message, is_ours):
        if not is_ours:
            talk = self.find(message.get("remote"), message.get("local"))
            if message.name == "REQ" and talk.is_over:
                talk = self.of_id["peers", message.get("local")] = Conversation()
            talk.on_heard(message)
            return []
        return self.find(message.get("local"), message.get("remote")).complaints(message)

    def data_complaints(self, packet):
        qpn = packet["bth"]["dqpn"]
        if qpn in self.data:
            return []
        self.data[qpn] = self.by_peers_qpn(qpn)
        return self.data[qpn].data_complaints(packet["bth"]["psn"]) if self.data[qpn] else [f"data to QP 0x{qpn:x}, of nobody"]


def complaints_about(packets, ours):
    """A list of texts: what is wrong with what came from the address `ours`. `packets`: as of read()."""
    table, found = Table(), []
    for number, packet in packets:
        if isinstance(packet, Message):
            said = table.complaints(packet, packet.source == ours)
            found += [f"packet {number}: {packet.name}: {text}" for text in said]
        elif packet["ip"]["source"] == ours and roce_talk.is_request(packet):
            found += [f"packet {number}: {text}" for text in table.data_complaints(packet)]
    return found


def complaints(path, ours):
    return complaints_about(read(path), ours)
