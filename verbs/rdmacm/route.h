// SPDX-License-Identifier: Apache-2.0
// From an id to what its packets travel along.
#pragma once

#include <rdma/ib_user_sa.h>

#include "verbs/rdmacm/id.h"

namespace uroce::rdmacm {

/// Every NIC has one port.
inline constexpr std::uint8_t kPort = 1;

/// IBTA Annex A11: the port space, and the listener's port.
constexpr std::uint64_t service_id(std::uint16_t space, std::uint16_t port) {
  return std::uint64_t{space} << 16 | port;
}
cm::Transport transport_of(enum ibv_qp_type type);

/// For an id with a NIC and a destination: the path MTU of our port. To an address of this host packets take no wire
/// whose MTU would be known to both ends: there it is no more than that of the peer's interface. Asks the host.
std::uint8_t path_mtu_towards(const Id& id);
/// For an id with a NIC and a destination.
cm::PathInfo path_of(const Id& id);
/// `path` as a path record. `id` has a NIC.
ib_user_path_rec path_record(const Id& id, const cm::PathInfo& path);

}  // namespace uroce::rdmacm
