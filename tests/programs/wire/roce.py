# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 packets and their ICRC, read from capture files. Shares no code with the C++ sources: a second opinion."""
import ipaddress
import struct
import zlib

ROCE_PORT = 4791

# name: (offset in bits, width), as IBTA Vol 1 chapter 9 draws them
BTH = {"opcode": (0, 8), "se": (8, 1), "m": (9, 1), "pad": (10, 2), "tver": (12, 4), "pkey": (16, 16), "fecn": (32, 1),
       "becn": (33, 1), "dqpn": (40, 24), "a": (64, 1), "psn": (72, 24)}
DETH = {"qkey": (0, 32), "sqpn": (40, 24)}
RETH = {"va": (0, 64), "rkey": (64, 32), "len": (96, 32)}
ATOMIC = {"va": (0, 64), "rkey": (64, 32), "swap_add": (96, 64), "compare": (160, 64)}
AETH = {"syndrome": (0, 8), "msn": (8, 24)}
ATOMIC_ACK = {"original": (0, 64)}
IMM = {"imm": (0, 32)}
IETH = {"rkey": (0, 32)}
CNP = {}

SIZES = {"bth": 12, "deth": 8, "reth": 16, "atomiceth": 28, "aeth": 4, "atomicacketh": 8, "immdt": 4, "ieth": 4, "cnp": 16}
FIELDS = {"bth": BTH, "deth": DETH, "reth": RETH, "atomiceth": ATOMIC, "aeth": AETH, "atomicacketh": ATOMIC_ACK,
          "immdt": IMM, "ieth": IETH, "cnp": CNP}

# Headers after BTH by the lower five bits of an RC or UC opcode.
CONNECTED = {0: (), 1: (), 2: (), 3: ("immdt",), 4: (), 5: ("immdt",), 6: ("reth",), 7: (), 8: (), 9: ("immdt",),
             10: ("reth",), 11: ("reth", "immdt"), 12: ("reth",), 13: ("aeth",), 14: (), 15: ("aeth",), 16: ("aeth",),
             17: ("aeth",), 18: ("aeth", "atomicacketh"), 19: ("atomiceth",), 20: ("atomiceth",), 22: ("ieth",),
             23: ("ieth",), 29: ("reth",)}
HEADERS = {op: ("bth",) + rest for op, rest in CONNECTED.items()}
HEADERS.update({0x20 + op: ("bth",) + rest for op, rest in CONNECTED.items() if op <= 11})
HEADERS.update({0x64: ("bth", "deth"), 0x65: ("bth", "deth", "immdt"), 0x81: ("bth", "cnp")})


class NotRoce(Exception):
    """The frame, or the packet in it, is not what RoCEv2 allows; str() says why."""


def read_pcap(path):
    """Yields (timestamp in ns, frame bytes) of a classic capture file with Ethernet frames."""
    with open(path, "rb") as file:
        data = file.read()
    order, unit = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\xc3\xd4": (">", 1000),
                   b"\xa1\xb2\x3c\x4d": (">", 1)}[data[:4]]
    link = struct.unpack(order + "I", data[20:24])[0]
    if link != 1:
        raise NotRoce(f"{path}: link type {link}, not Ethernet")
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, captured, length = struct.unpack(order + "4I", data[at:at + 16])
        if captured != length or at + 16 + captured > len(data):
            raise NotRoce(f"{path}: truncated packet")
        yield seconds * 10**9 + fraction * unit, data[at + 16:at + 16 + captured]
        at += 16 + captured


def bits(header, offset, width):
    value = int.from_bytes(header, "big")
    return value >> (len(header) * 8 - offset - width) & ((1 << width) - 1)


def ipv4_checksum(header):
    total = sum(struct.unpack("!%dH" % (len(header) // 2), header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def icrc(ip_to_pad, ip_header):
    """The four ICRC bytes for a packet given from its IP header to the last pad byte."""
    p = bytearray(ip_to_pad)
    if p[0] >> 4 == 4:
        p[1] = p[8] = p[10] = p[11] = 0xFF  # TOS, TTL, header checksum
    else:
        p[0] |= 0x0F  # traffic class and flow label
        p[1] = p[2] = p[3] = p[7] = 0xFF  # and hop limit
    p[ip_header + 6] = p[ip_header + 7] = 0xFF  # UDP checksum
    p[ip_header + 12] = 0xFF  # BTH: FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(p)))


def parse_ip(frame):
    """(facts about IP, the datagram without trailer, length of the IP header)"""
    kind, packet = struct.unpack("!H", frame[12:14])[0], frame[14:]
    if kind == 0x0800:
        length, header = struct.unpack("!H", packet[2:4])[0], (packet[0] & 15) * 4
        flags = struct.unpack("!H", packet[6:8])[0]
        ip = {"version": 4, "source": str(ipaddress.ip_address(packet[12:16])),
              "destination": str(ipaddress.ip_address(packet[16:20])), "tclass": packet[1],
              "id": struct.unpack("!H", packet[4:6])[0], "df": flags >> 14 & 1, "fragment": flags & 0x3FFF,
              "checksum_ok": ipv4_checksum(packet[:header]) == 0, "protocol": packet[9]}
    elif kind == 0x86DD:
        length, header = 40 + struct.unpack("!H", packet[4:6])[0], 40
        ip = {"version": 6, "source": str(ipaddress.ip_address(packet[8:24])),
              "destination": str(ipaddress.ip_address(packet[24:40])),
              "tclass": struct.unpack("!H", packet[:2])[0] >> 4 & 0xFF, "checksum_ok": True, "fragment": 0,
              "protocol": packet[6]}
    else:
        raise NotRoce(f"EtherType 0x{kind:04x}")
    if ip["protocol"] != 17 or ip["fragment"] or length > len(packet):
        raise NotRoce("not a whole UDP datagram")
    return ip, packet[:length], header


def decode(frame):
    """All fields of a RoCEv2 frame as a dictionary; NotRoce when it is none."""
    ip, packet, header = parse_ip(frame)
    source, destination, length, checksum = struct.unpack("!4H", packet[header:header + 8])
    if destination != ROCE_PORT:
        raise NotRoce(f"UDP port {destination}")
    if length != len(packet) - header:
        raise NotRoce("UDP length differs from IP's")
    roce = packet[header + 8:]
    if len(roce) < 16 or roce[0] not in HEADERS:
        raise NotRoce("too short, or an unknown opcode")
    result = {"ip": ip, "udp": {"source": source, "destination": destination, "checksum": checksum}}
    at = 0
    for name in HEADERS[roce[0]]:
        part = roce[at:at + SIZES[name]]
        if at + SIZES[name] + 4 > len(roce):
            raise NotRoce(f"cut inside {name}")
        result[name] = {field: bits(part, *place) for field, place in FIELDS[name].items()}
        at += SIZES[name]
    pad = result["bth"]["pad"]
    if at + pad + 4 > len(roce):
        raise NotRoce("pad count exceeds the packet")
    result["payload"] = roce[at:len(roce) - 4 - pad]
    result["icrc_ok"] = icrc(packet[:-4], header) == roce[-4:]
    return result
