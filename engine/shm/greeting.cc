// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/greeting.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "engine/port/socket_address.h"
#include "proto/address.h"

namespace uroce::engine {
namespace {

/// Link-local IPv6 addresses are none of a NIC either: its GID of that kind stands for another one.
bool can_be_of_nic(const proto::Gid& address) {
  return !address.is_any() && !address.is_multicast() && !is_link_local(address) &&
         address != proto::Gid::from_v4(255, 255, 255, 255);
}

}  // namespace

bool is_possible(const LinkName& name) {
  return name.source.is_v4() == name.destination.is_v4() && can_be_of_nic(name.source) &&
         can_be_of_nic(name.destination);
}

WireName::WireName(const proto::Gid& local, std::uint8_t slot) {
  const std::string name =
      "uroce-wire" + std::to_string(kWireProtocol) + '-' + proto::to_string(local) + '-' + std::to_string(slot);
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // The first byte, 0, makes it an abstract name.
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

}  // namespace uroce::engine
