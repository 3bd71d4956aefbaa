# SPDX-License-Identifier: Apache-2.0
"""Packets that others have published, each with the ICRC that they state: facts, given by their fields, and not their files.

The first two are in test/contrib/roce.uts of scapy, the third in src/device/software/packet_processor.rs of
datenlord/open-rdma-driver. The IPv4 checksums that these publish show that no field is mistyped. The UDP checksum of the
second is 0 here: neither checksum nor Ethernet header counts in an ICRC.
"""
import collections
import ipaddress
import struct

import roce

Published = collections.namedtuple("Published", "what tos identification flags source destination port transport ip_checksum icrc")

PUBLISHED = (
    # Congestion, noticed by a ConnectX-4 Lx: BECN set, 16 bytes of zeros, source port 0.
    Published("CNP", 0xC2, 0x718C, 0x4000, "10.0.17.1", "10.0.18.1", 0,
              struct.pack("!BBHII", 0x81, 0, 0xFFFF, 0x40000118, 0) + bytes(16), 0x9161, 0x82FD002A),
    # 18 bytes and two of pad, from a Mellanox card to itself. ECN says ECT(1).
    Published("UC SEND ONLY", 1, 1144, 0x4000, "192.168.0.7", "192.168.0.7", 49152,
              struct.pack("!BBHII", 0x24, 0x60, 0xFFFF, 211, 13571856) +
              bytes.fromhex("4630818be28935d90e9a95505401be885e50 0000"), 0xB4D5, 0x78F353F3),
    # 128 bytes of 0xFF. P_Key 0, and P_Key and source port are what this project's card sends.
    Published("WRITE ONLY", 0, 1, 0, "192.168.0.2", "192.168.0.3", 4791,
              struct.pack("!BBHIIQII", 0x0A, 0x80, 0, 2, 0x80000000, 0x7F7E91000000, 0x01709A33, 128) + b"\xFF" * 128,
              0xF8DA, 0xC6872298),
)


def frame(packet):
    """The packet as it was on the wire, with its published ICRC, in an Ethernet frame."""
    udp = struct.pack("!4H", packet.port, roce.ROCE_PORT, 8 + len(packet.transport) + 4, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, packet.tos, 20 + len(udp) + len(packet.transport) + 4, packet.identification,
                     packet.flags, 64, 17, packet.ip_checksum, ipaddress.ip_address(packet.source).packed,
                     ipaddress.ip_address(packet.destination).packed)
    assert roce.ipv4_checksum(ip) == 0, f"{packet.what}: a field of the IPv4 header is mistyped"
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    return ethernet + ip + udp + packet.transport + struct.pack("!I", packet.icrc)


def write_capture(path):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(PUBLISHED):
            data = frame(packet)
            file.write(struct.pack("<4I", 1, number, len(data), len(data)) + data)
