// SPDX-License-Identifier: Apache-2.0
// A SEND or WRITE of several packets at its responder: between its FIRST and its LAST.
#pragma once

#include <optional>

#include "proto/packet.h"

namespace uroce::nic {

/// The message whose first packet has arrived and whose last has not.
struct InboundMessage {
  std::optional<proto::Kind> kind;
  std::uint64_t offset = 0;  ///< Bytes received so far.
  std::uint64_t va = 0;      ///< WRITE: where the next byte goes.
  std::uint32_t rkey = 0;
  std::uint32_t left = 0;  ///< WRITE: bytes that RETH announced and that have not come.

  /// Whether the next packet, of a SEND or WRITE, has the length that it may have (IBTA Vol 1, 9.7.4.1.6): FIRST and
  /// MIDDLE carry exactly one path MTU, LAST 1..MTU, ONLY 0..MTU; RETH's length is the sum of the payloads; no message
  /// is longer than 2^31.
  bool has_right_length(const proto::PacketView& packet, std::uint32_t mtu) const;
};

}  // namespace uroce::nic
