// SPDX-License-Identifier: Apache-2.0
// The addresses of RDMA CM: an IP address of either family and a port of a port space.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/path.h"

namespace uroce::rdmacm {

struct SocketAddress {
  sa_family_t family = AF_UNSPEC;  ///< AF_UNSPEC: no address. Else AF_INET or AF_INET6.
  proto::Gid address{};            ///< IPv4 as ::ffff:a.b.c.d.
  std::uint16_t port = 0;          ///< In host order; 0: none yet.
  std::uint32_t flowinfo = 0;      ///< IPv6 only, in host order.
  std::uint32_t scope = 0;         ///< IPv6 only.

  /// The wildcard, of its family.
  bool is_any() const;
  bool is_loopback() const;
};

/// The address of `gid`: AF_INET when it is an IPv4 address.
SocketAddress socket_address(const proto::Gid& gid, std::uint16_t port);
SocketAddress any_address(sa_family_t family);

/// Reads a sockaddr_in or a sockaddr_in6 at `from`, where `room` bytes are. Nothing for other families, or when it does
/// not fit.
std::optional<SocketAddress> read_address(const void* from, std::size_t room);
/// Writes it as a sockaddr of its family: zeros without a family. Never more than 28 bytes. Returns the size.
std::size_t write_address(const SocketAddress& address, void* to);

}  // namespace uroce::rdmacm
