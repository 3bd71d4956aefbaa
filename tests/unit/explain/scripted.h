// SPDX-License-Identifier: Apache-2.0
// Captures of packets that a test makes up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/opcodes.h"
#include "proto/path.h"
#include "tests/unit/explain/rewritten.h"

namespace uroce::explain::test {

/// A packet of a connection, with zeros as payload.
struct Scripted {
  bool from_a = true;
  proto::Opcode op{};
  std::uint32_t psn = 0;
  std::size_t payload = 0;
  Octets headers{};       ///< Behind BTH.
  bool damaged = false;   ///< Its ICRC is wrong.
  int wait_us = 10;       ///< After the packet before.
  bool migrated = false;  ///< MigReq is set.
  std::uint16_t source_port = 0xC000;
};

/// RETH of a READ of so many bytes, `offset` behind some address; AETH of an ACK.
Octets reth(std::uint32_t length, std::uint32_t offset = 0);
Octets aeth(std::uint32_t msn);
/// Of a NAK; 0: "PSN sequence error".
Octets nak(std::uint32_t msn, std::uint32_t code = 0);
Octets rnr_nak(std::uint32_t msn);

struct Ends {
  proto::Gid a = proto::Gid::from_v4(10, 0, 0, 1), b = proto::Gid::from_v4(10, 0, 0, 2);
  std::uint32_t qp_a = 0x11, qp_b = 0x22;
};

Octets scripted_pcap(const std::vector<Scripted>& packets, const Ends& ends = {});

/// A packet as a NIC of ours captures it: that of A, or that of B.
struct Sighting {
  Scripted packet;
  std::string comment{};
  bool at_a = true;
};
/// The .pcapng of both NICs, in which each has an interface if it has seen anything.
Octets scripted_pcapng(const std::vector<Sighting>& sightings, const Ends& ends = {});

/// A packet of one of several connections, each of which has its own ends.
struct Said {
  Ends ends;
  Scripted packet;  ///< `wait_us` is when.
};

/// The captures of all of them as one: packet after packet.
Octets told_by_turns(const std::vector<Said>& packets);

}  // namespace uroce::explain::test
