// SPDX-License-Identifier: Apache-2.0
// Sleeping in poll() the way read() sleeps. A handler that was installed with SA_RESTART, as those of signal() are,
// does not end a read(), but it does end a poll(), with EINTR (signal(7)).
#pragma once

#include <functional>

namespace uroce::engine {

/// While one lives, this thread sleeps. What else it does meanwhile is done by signal handlers.
class Asleep {
 public:
  Asleep() { is_asleep_ = true; }
  ~Asleep() { is_asleep_ = false; }
  Asleep(const Asleep&) = delete;
  Asleep& operator=(const Asleep&) = delete;
  static bool is_this_thread() { return is_asleep_; }

 private:
  static inline thread_local bool is_asleep_ = false;
};

/// Whether a poll() of this thread that ended with EINTR is to be made again: all the program's handlers for signals
/// that this thread does not block have SA_RESTART. Nothing tells which of them ran; where they differ, this is false.
bool handlers_restart();

/// Blocks until `fd` is readable, or `is_ready`, which is asked before each sleep. Returns 0, or an errno value: EINTR
/// where a read() would. A cancellation point.
int sleep_until_readable(int fd, const std::function<bool()>& is_ready);

}  // namespace uroce::engine
