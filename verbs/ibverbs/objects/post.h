// SPDX-License-Identifier: Apache-2.0
// What the two ways to post sends, ibv_post_send() and ibv_wr_*, have in common.
#pragma once

#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {

/// `wr` as the NIC takes it from this QP. The result borrows `sges` and, of UD, `target`. The error is an errno value.
Result<nic::SendWr, nic::Errno> to_nic(const QueuePair& qp, const struct ibv_send_wr& wr, SgeArray& sges,
                                       nic::UdTarget& target);

}  // namespace uroce::ibv
