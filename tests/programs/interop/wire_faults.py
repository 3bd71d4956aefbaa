# SPDX-License-Identifier: Apache-2.0
"""What a bad wire does to RoCE packets: drops, duplicates, corrupts, delays and reorders them, by rules and by chance.

A specification is a list of comma separated items:

    seed=N                  for everything that is drawn (default 1)
    ACTION=P%               that part of all RoCE packets, in both directions
    ACTION=KIND             the first packet of a kind; KIND#N the N-th one, KIND#NxM M of them from the N-th on, KIND#Nx* all

    drop=WHICH[:TIMES]      drops the packet, and its retransmissions until it has been dropped TIMES times (default 1)
    dup=WHICH[:MS]          sends it twice, the copy MS milliseconds later (default 0)
    corrupt=WHICH           changes one byte that the ICRC covers
    delay=WHICH[:MS]        sends it MS milliseconds later (default 20)
    reorder=WHICH[:N]       lets N later packets of its direction overtake it (default 1), or RELEASE_AFTER pass

KIND is one of KINDS, or "request", "response" (to a READ), "cm" (a message of connection management), "any". An item acts on a packet at most once, the first item that
wants it has it. No I/O and no clock in here: frames and the time come from the caller.
"""

import heapq
import random

RELEASE_AFTER = 0.05  # seconds after which a packet goes that nobody wants to overtake
SEND = ("send-first", "send-middle", "send-last", "send-only")
WRITE = ("write-first", "write-middle", "write-last", "write-only")
RESPONSE = ("response-first", "response-middle", "response-last", "response-only")
ATOMIC = ("cas", "faa")
CM = ("req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr-req", "sidr-rep")  # attributes from 0x10 on
KINDS = (*SEND, *WRITE, *RESPONSE, *ATOMIC, "read", "atomic-ack", "ack", "rnr", "nak", *CM)
GROUPS = {"request": {*SEND, *WRITE, *ATOMIC, "read"}, "response": set(RESPONSE), "cm": set(CM), "any": set(KINDS)}
RC_OPCODES = dict(enumerate((*SEND[:3], SEND[2], SEND[3], SEND[3], *WRITE[:3], WRITE[2], WRITE[3], WRITE[3], "read",
                             *RESPONSE)))
RC_OPCODES |= {0x12: "atomic-ack", 0x13: "cas", 0x14: "faa", 0x16: SEND[2], 0x17: SEND[3]}  # 0x11: ACK_KINDS
UD_SEND_ONLY, MANAGEMENT_QPN, MAD = 0x64, 1, 12 + 8  # The MAD is behind BTH and DETH.
ACK_KINDS = {0: "ack", 1: "rnr", 3: "nak"}  # bits 6:5 of the syndrome
DEFAULTS = {"drop": 1, "dup": 0, "corrupt": None, "delay": 20, "reorder": 1}


class Packet:
    """What rules look at: kind, destination QP and PSN, where it begins and ends in its frame, and what it has in common
    with its retransmissions: a PSN, or a whole MAD, which gets a new PSN each time."""

    def __init__(self, kind, frame, begin, end):
        self.kind, self.begin, self.end = kind, begin, end
        self.qpn = int.from_bytes(frame[begin + 5:begin + 8], "big")
        self.psn = int.from_bytes(frame[begin + 9:begin + 12], "big")
        self.identity = (kind, self.qpn, frame[begin + MAD:end - 4] if kind in CM else self.psn)

    def __str__(self):
        return f"{self.kind} QP 0x{self.qpn:x} PSN 0x{self.psn:06x}"


def look_at(frame):
    """The RC packet or CM message in an Ethernet frame, or None: whatever is something else goes through."""
    ether_type = frame[12:14]
    if ether_type == b"\x08\x00" and len(frame) >= 14 + 20:
        udp, end, protocol = 14 + (frame[14] & 15) * 4, 14 + int.from_bytes(frame[16:18], "big"), frame[23]
    elif ether_type == b"\x86\xdd" and len(frame) >= 14 + 40:
        udp, end, protocol = 14 + 40, 14 + 40 + int.from_bytes(frame[18:20], "big"), frame[20]
    else:
        return None
    begin = udp + 8
    if protocol != 17 or frame[udp + 2:udp + 4] != b"\x12\xb7" or begin + 16 > end or end > len(frame):
        return None
    kind = kind_of(frame[begin:end])
    return Packet(kind, frame, begin, end) if kind else None


def kind_of(packet):
    if packet[0] == 0x11:
        return ACK_KINDS.get(packet[12] >> 5 & 3)
    if packet[0] == UD_SEND_ONLY and int.from_bytes(packet[5:8], "big") == MANAGEMENT_QPN:
        attribute = int.from_bytes(packet[MAD + 16:MAD + 18], "big") - 0x10
        return CM[attribute] if 0 <= attribute < len(CM) else None
    return RC_OPCODES.get(packet[0])


class Item:
    """One item of a specification."""

    def __init__(self, action, value):
        self.action = action
        which, _, parameter = value.partition(":")
        self.parameter = float(parameter) if parameter else DEFAULTS[action]
        self.chance, self.kinds, self.seen, self.fired, self.left_of_it = None, set(), 0, 0, {}
        if which.endswith("%"):
            self.chance = float(which[:-1]) / 100
            return
        kind, _, ordinal = which.partition("#")
        self.kinds = GROUPS.get(kind) or ({kind} & set(KINDS))
        if not self.kinds:
            raise ValueError(f"no such kind of packet: {kind}")
        first, _, count = (ordinal or "1").partition("x")
        self.first = int(first)
        self.last = float("inf") if count == "*" else self.first + int(count or "1") - 1

    def wants(self, packet, direction, chance):
        if self.chance is not None:
            return chance.random() < self.chance
        if packet.kind not in self.kinds:
            return False
        identity = (direction, packet.identity)
        if self.left_of_it.get(identity):
            self.left_of_it[identity] -= 1
            return True
        self.seen += 1
        if not self.first <= self.seen <= self.last:
            return False
        if self.action == "drop" and self.parameter > 1:
            self.left_of_it[identity] = self.parameter - 1
        return True


class WireFaults:
    """Both directions of a wire, named by the caller. Frames in, frames out; hand over what is due again and again."""

    def __init__(self, specification=""):
        self.items, seed = [], 1
        for text in filter(None, specification.split(",")):
            action, _, value = text.partition("=")
            if action == "seed":
                seed = int(value)
            elif action in DEFAULTS and value:
                self.items.append(Item(action, value))
            else:
                raise ValueError(f"what is '{text}'?")
        self.chance = random.Random(seed)
        self.counts = dict.fromkeys(DEFAULTS, 0)
        self.log = []        # what was done, in words
        self.later = []      # heap of (when, number, direction, frame)
        self.overtaken = {}  # direction: list of [packets that are still to overtake it, deadline, frame]
        self.number = 0

    def take(self, direction, frame, now):
        """The frames to pass on now in this direction, because `frame` has come."""
        packet = look_at(frame)
        if packet is None:
            return [frame]
        item = next((item for item in self.items if item.wants(packet, direction, self.chance)), None)
        if item is None:
            return [frame, *self._overtake(direction)]
        item.fired += 1
        self.counts[item.action] += 1
        self.log.append(f"{item.action} {direction} {packet}")
        if item.action == "drop":
            return []
        if item.action == "reorder":
            self.overtaken.setdefault(direction, []).append([item.parameter, now + RELEASE_AFTER, frame])
            return []
        if item.action == "delay":
            self._send_later(now + item.parameter / 1000, direction, frame)
            return []
        if item.action == "corrupt":
            frame = self._damage(frame, packet)
        elif item.parameter:
            self._send_later(now + item.parameter / 1000, direction, frame)
        copies = 2 if item.action == "dup" and not item.parameter else 1
        return [frame] * copies + self._overtake(direction)

    def due(self, now):
        """(direction, frame) of each frame that has waited long enough."""
        frames = []
        while self.later and self.later[0][0] <= now:
            frames.append(heapq.heappop(self.later)[2:])
        for direction, waiting in self.overtaken.items():
            frames += [(direction, frame) for _, deadline, frame in waiting if deadline <= now]
            waiting[:] = [entry for entry in waiting if entry[1] > now]
        return frames

    def next_due(self):
        """When due() has something next, or None."""
        times = [self.later[0][0]] if self.later else []
        times += [deadline for waiting in self.overtaken.values() for _, deadline, _ in waiting]
        return min(times, default=None)

    def _send_later(self, when, direction, frame):
        self.number += 1
        heapq.heappush(self.later, (when, self.number, direction, frame))

    def _overtake(self, direction):
        waiting = self.overtaken.get(direction)
        if not waiting:
            return []
        for entry in waiting:
            entry[0] -= 1
        released = [frame for left, _, frame in waiting if left <= 0]
        waiting[:] = [entry for entry in waiting if entry[0] > 0]
        return released

    def _damage(self, frame, packet):
        at = self.chance.randrange(packet.begin, packet.end - 1)
        at += at >= packet.begin + 4  # FECN, BECN and the reserved bits beside them are not covered
        return frame[:at] + bytes([frame[at] ^ self.chance.randrange(1, 256)]) + frame[at + 1:]
