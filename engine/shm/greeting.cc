// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/greeting.h"

#include <string>

#include "engine/port/socket_address.h"
#include "proto/address.h"

namespace uroce::engine {
namespace {

/// Link-local IPv6 addresses are none of a NIC either: its GID of that kind stands for another one.
bool can_be_of_nic(const proto::Gid& address) {
  return !address.is_any() && !address.is_multicast() && !address.is_link_local() &&
         address != proto::Gid::from_v4(255, 255, 255, 255);
}

}  // namespace

bool is_possible(const LinkName& name) {
  return name.source.is_v4() == name.destination.is_v4() && can_be_of_nic(name.source) &&
         can_be_of_nic(name.destination);
}

AbstractName wire_name(const proto::Gid& local, std::uint8_t slot) {
  return AbstractName("uroce-wire" + std::to_string(kWireProtocol) + '-' + proto::to_string(local) + '-' +
                      std::to_string(slot));
}

}  // namespace uroce::engine
