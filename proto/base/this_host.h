// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace uroce {

/// Whether `address`, an IPv4 or IPv6 one with any port but 0, is of this network namespace. Nothing when the system
/// does not say (no free descriptor). Sends nothing. That it can be bound proves nothing: with ip_nonlocal_bind all
/// can.
inline std::optional<bool> is_of_this_host(const sockaddr& address, socklen_t length) {
  const int fd = ::socket(address.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  bool is_here = false;
  if (address.sa_family == AF_INET) {
    // From an address of another host there is no route. Unbound, the socket would get the first of several addresses.
    sockaddr_in from;
    std::memcpy(&from, &address, sizeof from);
    from.sin_port = 0;
    is_here =
        ::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0 && ::connect(fd, &address, length) == 0;
  } else {
    // To its own addresses a host sends from the same one (RFC 6724, 5, rule 1).
    sockaddr_in6 to, from{};
    std::memcpy(&to, &address, sizeof to);
    socklen_t size = sizeof from;
    is_here = ::connect(fd, &address, length) == 0 &&
              ::getsockname(fd, reinterpret_cast<sockaddr*>(&from), &size) == 0 &&
              std::memcmp(&from.sin6_addr, &to.sin6_addr, sizeof to.sin6_addr) == 0;
  }
  ::close(fd);
  return is_here;
}

}  // namespace uroce
