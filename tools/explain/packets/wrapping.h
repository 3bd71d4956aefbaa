// SPDX-License-Identifier: Apache-2.0
// What switches and clouds wrap around a frame: VLAN tags, and the tunnels in which mirrored packets travel. RoCE lies
// inside. And what they put between IPv6 and what it carries.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/bytes.h"

namespace uroce::explain {

/// What lies inside of all wrappings.
struct Unwrapped {
  std::uint16_t type = 0;  ///< EtherType of `network`.
  Bytes network;           ///< From the IP header, or the GRH, on.
  unsigned tags = 0;       ///< VLAN tags of the innermost frame.
  /// "ERSPAN", "GRE", "VXLAN" (RFC 2784, 2890, 7348; draft-foschiano-erspan-03), the innermost; empty: none.
  std::string_view tunnel;
};

/// Takes the wrappings off an Ethernet frame. Any bytes; what can't be taken off stays.
Unwrapped unwrap(Bytes ethernet);

/// The extension headers of an IPv6 packet that may be in front of anything (RFC 8200): hop-by-hop and destination
/// options, a routing header whose way is over, the fragment header of a packet in one piece.
struct Extensions {
  std::size_t size = 0;
  std::uint8_t protocol = 0;  ///< Of what follows them.
};
/// As many as are whole, none when the packet is too short to have any.
Extensions extensions_of(Bytes ipv6);

/// The same packet as its sender's NIC made it, whose ICRC knows of no extension headers.
std::vector<std::uint8_t> without(const Extensions& extensions, Bytes ipv6);

/// Bytes that the IP header (or GRH) speaks of and `network` does not have: a switch or a capture has cut them off.
/// Nothing when the header does not tell: it is cut off itself, or damaged.
std::optional<std::size_t> missing_bytes(std::uint16_t type, Bytes network);

}  // namespace uroce::explain
