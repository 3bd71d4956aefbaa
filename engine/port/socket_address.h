// SPDX-License-Identifier: Apache-2.0
// GIDs as socket addresses and back.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "proto/path.h"

namespace uroce::engine {

/// An IPv4 or IPv6 socket address.
struct SocketAddress {
  union {
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t size = 0;

  SocketAddress() : v6{} {}
  /// `scope`: the index of the interface. Only link-local IPv6 addresses and groups have it; others ignore it.
  SocketAddress(const proto::Gid& gid, std::uint16_t port, std::uint32_t scope = 0);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&v6); }
};

/// The GID of a socket address that the kernel filled in.
proto::Gid gid_of(const sockaddr* address);
std::uint16_t port_of(const sockaddr* address);

/// Index of the interface that has the link-local address `gid`; 0 when there is none or when `gid` is not link-local.
std::uint32_t link_local_scope(const proto::Gid& gid);

/// Index of the interface that has the IPv6 address `gid`; 0 when there is none.
std::uint32_t interface_of(const proto::Gid& gid);

}  // namespace uroce::engine
