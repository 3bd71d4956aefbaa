// SPDX-License-Identifier: Apache-2.0
// Packets and frames in words: a line for lists, a tree for one of them. Total, like parsing: what is no packet is
// described as such. Driven by kOpcodes and kHeaders, so a new opcode or header needs nothing here. Not for hot paths.
#pragma once

#include <string>

#include "proto/frame.h"
#include "proto/packet.h"
#include "proto/syndrome.h"

namespace uroce::proto {

/// "ACK", "RNR NAK 81.92 ms", "NAK remote access error", "reserved syndrome 0x40".
std::string describe(const Syndrome& syndrome);

/// "RC WRITE FIRST dqpn=0x11 psn=0x100 a=0 va=0x7f00 rkey=0x1234 len=3000 | 1024 bytes". BTH fields that have their
/// usual value (P_Key 0xffff, no SE, MigReq, FECN, BECN, reserved bits) are left out.
std::string one_line(const PacketView& packet);
/// The same for any bytes: "malformed packet: unknown opcode 0x15, 26 bytes".
std::string one_line(Bytes packet);
/// "10.77.0.11 > 10.77.0.12 RC SEND ONLY ...", with "CE" for packets that met congestion and "ICRC wrong" at the end.
std::string one_line(const FrameView& frame);
/// The same for any frame: "not a RoCE frame: not UDP, 60 bytes".
std::string frame_line(Bytes frame);

/// Every field of every header on a line of its own, indented by `indent` spaces, then payload, pad and ICRC.
std::string tree(Bytes packet, std::size_t indent = 0);
/// Ethernet, IP and UDP (or GRH) as well, and whether the ICRC is right.
std::string frame_tree(Bytes frame);

}  // namespace uroce::proto
