// SPDX-License-Identifier: Apache-2.0
// What two NICs say to each other before one writes into a ring that the other reads: one connection of a Unix socket
// for each direction, made by the NIC that is going to send. It stays open; its end, by whatever means, is the end of
// the ring.
//
//   sender                              receiver
//   connect() to wire_name()            accept(): same user?
//   same user?
//   Hello + the ring            --->    maps it, reads it from now on
//                               <---    Welcome + two bells: page and eventfd of each
//   sends through the ring from now on
#pragma once

#include <cstdint>

#include "engine/os/abstract_name.h"
#include "proto/path.h"

namespace uroce::engine {

/// Changes with the layout or meaning of anything that is shared. Part of the name: other versions do not find us.
inline constexpr std::uint32_t kWireProtocol = 4;

/// Which packets go through a ring: those from `source` to QPs of `slot` (the top byte of a QPN) at `destination`.
struct LinkName {
  proto::Gid source;
  proto::Gid destination;
  std::uint8_t slot = 0;
  friend bool operator==(const LinkName&, const LinkName&) = default;
};

/// Whether a packet can go this way: both are addresses that a NIC can have, and of one IP version. Who gets a name
/// from another process asks this: it becomes the path of packets, and captures build whole frames of them.
bool is_possible(const LinkName& name);

struct Hello {
  std::uint32_t protocol = kWireProtocol;
  LinkName link;
  std::uint8_t reserved[3] = {};
};
static_assert(sizeof(Hello) == 40);

struct Welcome {
  std::uint32_t protocol = kWireProtocol;
};

/// The name of the NIC that receives for `slot` of `local`.
AbstractName wire_name(const proto::Gid& local, std::uint8_t slot);

}  // namespace uroce::engine
