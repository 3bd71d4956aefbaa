// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace uroce::engine {

/// The address of a Unix socket in the abstract namespace (unix(7)). Such names belong to the network namespace, as IP
/// addresses do, and end with their socket.
struct AbstractName {
  /// Of a name that is too long (107 bytes), the beginning.
  explicit AbstractName(std::string_view name) {
    const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), length);  // The first byte, 0, makes it an abstract name.
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

}  // namespace uroce::engine
