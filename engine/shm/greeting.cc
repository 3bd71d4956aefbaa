// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/greeting.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "proto/address.h"

namespace uroce::engine {

WireName::WireName(const proto::Gid& local, std::uint8_t slot) {
  const std::string name =
      "uroce-wire" + std::to_string(kWireProtocol) + '-' + proto::to_string(local) + '-' + std::to_string(slot);
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // The first byte, 0, makes it an abstract name.
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace uroce::engine
