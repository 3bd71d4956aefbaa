// SPDX-License-Identifier: Apache-2.0
// One capture of all interfaces of a host (Linux cooked, `tcpdump -i any`) has a packet once for each interface that it
// passes there: a router, a bridge and a container's host receive it and send it on, and one interface may lie on
// another (VLAN, VXLAN, macvlan, bond). It is one packet on its way.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

class Passage {
 public:
  /// Whether `packet` is one that the host has had before, on another interface. Not where the host has sent it and now
  /// receives it: both ends are there.
  bool is_on_its_way(const Packet& packet);

 private:
  static constexpr std::int64_t kLongest = 1'000'000'000;  ///< In queues of the host.
  static constexpr std::size_t kMost = 200'000;
  struct Sighting {
    std::uint32_t tap = 0;
    Direction direction = Direction::kUnknown;
    std::int64_t time_ns = 0;
  };
  std::unordered_map<std::uint64_t, Sighting> first_;  ///< By identity_of(), of the last time that it was sent.
};

}  // namespace uroce::explain
