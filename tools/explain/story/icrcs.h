// SPDX-License-Identifier: Apache-2.0
// Whose ICRCs are never right: damage meets some packets, another way to compute it all of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

/// An address with a wrong ICRC in all that it sends.
struct NeverRight {
  proto::Gid address;
  std::uint64_t packets = 0;
  std::uint64_t unplaced = 0;  ///< Of them: those of no connection, as nothing makes one that its receiver drops.
};

class Icrcs {
 public:
  /// As the packet was sent. `placed`: it belongs to a connection.
  void tell(const Packet& packet, bool placed);
  /// Whether that is so of an address, as far as its packets were told.
  bool is_never_right(const proto::Gid& address) const;
  /// Those with enough packets to say so, by address.
  std::vector<NeverRight> never_right() const;

 private:
  static constexpr std::uint64_t kEnough = 3;
  static constexpr std::size_t kMost = 10'000;
  struct Sender {
    std::uint64_t right = 0, wrong = 0, unplaced = 0;
    bool is_never_right() const { return right == 0 && wrong >= kEnough; }
  };
  std::map<std::array<std::uint8_t, 16>, Sender> senders_;
};

}  // namespace uroce::explain
