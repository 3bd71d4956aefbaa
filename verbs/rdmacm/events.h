// SPDX-License-Identifier: Apache-2.0
// Events as GET_EVENT gives them.
#pragma once

#include <rdma/rdma_user_cm.h>

#include "verbs/cm/values.h"
#include "verbs/rdmacm/id.h"

namespace uroce::rdmacm {

/// One with nothing in it but what all have. `status`: 0, a negative errno, or the peer's reason.
rdma_ucm_event_resp plain_event(const Id& id, EventType event, int status);
/// What the connection manager tells about `id`, whose packets go along `path`; of a request, `id` is the listener.
rdma_ucm_event_resp connection_event(const Id& id, const cm::Event& event, const cm::PathInfo& path);
rdma_ucm_event_resp join_event(const Multicast& multicast);

/// The address vector for `destination`, from our address at `gid_index`.
ib_uverbs_ah_attr address_vector(const proto::Gid& destination, std::uint8_t gid_index, std::uint8_t tclass,
                                 std::uint32_t flow_label);

/// Q_Key of all UD ids and of multicast groups (Linux: RDMA_UDP_QKEY).
inline constexpr std::uint32_t kUdpQkey = 0x01234567;

}  // namespace uroce::rdmacm
