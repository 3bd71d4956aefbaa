// SPDX-License-Identifier: Apache-2.0
// Waiting for descriptors, however few of them the process may have.
#pragma once

#include <poll.h>

#include <span>

namespace uroce::engine {

/// As ppoll(2) without a mask of signals, all for POLLIN; `most` may be null. A process whose RLIMIT_NOFILE has become
/// less than the number of `polled` (sandboxes make it 0) gets EINVAL from ppoll(2). It waits by pselect(2) instead,
/// which knows no such limit, if all are numbered below FD_SETSIZE.
int poll_all(std::span<pollfd> polled, const timespec* most);

}  // namespace uroce::engine
