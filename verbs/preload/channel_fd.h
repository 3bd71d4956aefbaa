// SPDX-License-Identifier: Apache-2.0
// Which descriptors are channels of RDMA CM. Every write() and close() of a program asks, so the answer for others is
// one comparison as long as there are no channels.
#pragma once

#include <memory>

#include "verbs/rdmacm/channel.h"

namespace uroce::preload {

/// open(2) of /dev/infiniband/rdma_cm.
int open_channel(int flags);

/// The channel that `descriptor` is a copy of, or null. Leaves errno alone.
std::shared_ptr<rdmacm::Channel> channel_of(int descriptor);

/// `copy` may be a copy of a channel now, if `of` is: it was made by dup() or the like.
void note_copy(int of, int copy);
/// A descriptor of `channel` has been closed: if it was the last one, what is on it ends.
void note_close(const std::shared_ptr<rdmacm::Channel>& channel);
/// Many may have been closed, unseen.
void note_closes();

}  // namespace uroce::preload
