// SPDX-License-Identifier: Apache-2.0
// UDP ports that are bound in this network namespace, as the kernel tells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/path.h"

namespace uroce::ibv {

struct BoundPort {
  proto::Gid address;  ///< All zeros: any address.
  unsigned int uid = 0;
  std::string inode;  ///< The socket's.
};

/// The sockets that are bound to `port`, in the kernel's order; empty when the kernel does not tell.
std::vector<BoundPort> bound_udp_ports(std::uint16_t port);

/// Whether somebody has bound one of `ports` at `address`; nothing when the address is not of this namespace.
std::optional<bool> is_bound_here(const proto::Gid& address, const std::vector<BoundPort>& ports);

}  // namespace uroce::ibv
