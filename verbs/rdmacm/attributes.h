// SPDX-License-Identifier: Apache-2.0
// INIT_QP_ATTR: what a program sets its QP to, state by state.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>
#include <optional>

#include "verbs/rdmacm/id.h"

namespace uroce::rdmacm {

/// Fills in the attributes to bring a QP of `id` to `state` (ib_qp_state, 0..6). `info`: of its connection, once there
/// is one. EINVAL: not in this state of the connection.
int fill_qp_attributes(const Id& id, const std::optional<cm::ConnectionInfo>& info, std::uint32_t state,
                       ib_uverbs_qp_attr& out);

}  // namespace uroce::rdmacm
