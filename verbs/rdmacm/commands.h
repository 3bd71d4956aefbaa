// SPDX-License-Identifier: Apache-2.0
// The commands of the kernel's ucma interface (ABI 4, <rdma/rdma_user_cm.h>): what a program writes to a channel.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "verbs/rdmacm/channel.h"

namespace uroce::rdmacm {

/// write(2) of a command to `channel`, by its copy `descriptor`. Returns `size`, or -1 and errno. Blocks for GET_EVENT
/// only, if the descriptor does; a cancellation point there.
ssize_t execute(const std::shared_ptr<Channel>& channel, int descriptor, const void* command, std::size_t size);

}  // namespace uroce::rdmacm
