// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/socket_address.h"

#include <arpa/inet.h>

#include <cstring>

namespace uroce::rdmacm {

bool SocketAddress::is_any() const {
  return family == AF_INET ? address == proto::Gid::from_v4(0, 0, 0, 0) : address.is_zero();
}

bool SocketAddress::is_loopback() const { return (family == AF_INET) == address.is_v4() && address.is_loopback(); }

SocketAddress socket_address(const proto::Gid& gid, std::uint16_t port) {
  return {.family = static_cast<sa_family_t>(gid.is_v4() ? AF_INET : AF_INET6), .address = gid, .port = port};
}

SocketAddress any_address(sa_family_t family) {
  return {.family = family, .address = family == AF_INET ? proto::Gid::from_v4(0, 0, 0, 0) : proto::Gid{}};
}

std::optional<SocketAddress> read_address(const void* from, std::size_t room) {
  sa_family_t family = AF_UNSPEC;
  if (room < sizeof family) return std::nullopt;
  std::memcpy(&family, from, sizeof family);
  if (family == AF_INET && room >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    SocketAddress out = any_address(AF_INET);
    std::memcpy(out.address.raw.data() + 12, &v4.sin_addr, 4);
    out.port = ntohs(v4.sin_port);
    return out;
  }
  if (family == AF_INET6 && room >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, from, sizeof v6);
    SocketAddress out = any_address(AF_INET6);
    std::memcpy(out.address.raw.data(), &v6.sin6_addr, 16);
    out.port = ntohs(v6.sin6_port);
    out.flowinfo = ntohl(v6.sin6_flowinfo);
    out.scope = v6.sin6_scope_id;
    return out;
  }
  return std::nullopt;
}

std::size_t write_address(const SocketAddress& address, void* to) {
  if (address.family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.address.v4(), 4);
    std::memcpy(to, &v4, sizeof v4);
    return sizeof v4;
  }
  if (address.family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    v6.sin6_flowinfo = htonl(address.flowinfo);
    v6.sin6_scope_id = address.scope;
    std::memcpy(&v6.sin6_addr, address.address.raw.data(), 16);
    std::memcpy(to, &v6, sizeof v6);
    return sizeof v6;
  }
  return 0;
}

}  // namespace uroce::rdmacm
