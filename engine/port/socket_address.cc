// SPDX-License-Identifier: Apache-2.0
#include "engine/port/socket_address.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <array>
#include <cstring>
#include <memory>

namespace uroce::engine {
namespace {

/// Addresses that each link has: fe80::/10, and the groups ff01, ff02 ... (RFC 4291 2.7).
bool needs_interface(const proto::Gid& gid) {
  const int group_scope = gid.raw[0] == 0xFF ? gid.raw[1] & 0x0F : 0;
  return gid.is_link_local() || group_scope == 1 || group_scope == 2;
}

}  // namespace

SocketAddress::SocketAddress(const proto::Gid& gid, std::uint16_t port, std::uint32_t scope) : v6{} {
  if (gid.is_v4()) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, gid.v4(), sizeof v4.sin_addr);
    size = sizeof v4;
  } else {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, gid.raw.data(), sizeof v6.sin6_addr);
    v6.sin6_scope_id = needs_interface(gid) ? scope : 0;
    size = sizeof v6;
  }
}

proto::Gid gid_of(const sockaddr* address) {
  proto::Gid gid;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    std::array<std::uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &v4.sin_addr, bytes.size());
    gid = proto::Gid::from_v4(bytes[0], bytes[1], bytes[2], bytes[3]);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(gid.raw.data(), &v6.sin6_addr, gid.raw.size());
  }
  return gid;
}

std::uint16_t port_of(const sockaddr* address) {
  sockaddr_in v4;  // The port is at the same place in both families.
  std::memcpy(&v4, address, sizeof v4);
  return ntohs(v4.sin_port);
}

std::uint32_t link_local_scope(const proto::Gid& gid) { return gid.is_link_local() ? interface_of(gid) : 0; }

std::uint32_t interface_of(const proto::Gid& gid) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET6) continue;
    if (gid_of(entry->ifa_addr) == gid) return ::if_nametoindex(entry->ifa_name);
  }
  return 0;
}

}  // namespace uroce::engine
