// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include "engine/os/os_clock.h"

namespace uroce::engine {

/// Takes `mutex`, which others hold for microseconds. Returns false if it stays taken for `most`: perhaps by the very
/// code that a signal handler has interrupted, which calls this. (std::timed_mutex is one that sanitizers don't know.)
template <class Mutex>
bool try_lock_for(Mutex& mutex, Duration most) {
  for (const Instant latest = os_now() + most; !mutex.try_lock(); ::sched_yield()) {
    if (os_now() >= latest) return false;
  }
  return true;
}

}  // namespace uroce::engine
