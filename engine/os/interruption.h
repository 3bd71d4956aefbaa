// SPDX-License-Identifier: Apache-2.0
// Sleeping in poll() the way read() sleeps. A handler that was installed with SA_RESTART, as those of signal() are,
// does not end a read(), but it does end a poll(), with EINTR (signal(7)).
#pragma once

namespace uroce::engine {

/// Whether a poll() of this thread that ended with EINTR is to be made again: all the program's handlers for signals
/// that this thread does not block have SA_RESTART. Nothing tells which of them ran; where they differ, this is false.
bool handlers_restart();

/// Blocks until `fd` is readable. Returns 0, or an errno value: EINTR where a read() would. A cancellation point.
int sleep_until_readable(int fd);

}  // namespace uroce::engine
