// SPDX-License-Identifier: Apache-2.0
// The lock of a NIC and its port.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

#include "engine/os/aware_mutex.h"
#include "engine/os/os_clock.h"
#include "engine/os/processors.h"
#include "proto/base/clock.h"

namespace uroce::engine {

using TurnMutex = AwareMutex<class TurnLock>;

/// A mutex that try_lock() leaves to threads that wait for it: a thread that polls in a tight loop would otherwise
/// take it again before a thread that posts has woken up.
class TurnLock {
 public:
  using Held = std::unique_lock<TurnMutex>;

  /// Unless somebody holds it, or waits for it.
  Held try_lock() {
    if (is_wanted()) return {};
    return Held(mutex_, std::try_to_lock);
  }
  /// The same, but waits for it as long as `patience`, and is counted meanwhile; not where this thread has it already.
  Held try_lock_for(Duration patience) {
    Held held(mutex_, std::defer_lock);
    if (TurnMutex::is_inside()) return held;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    for (const Instant end = os_now() + patience; !held.try_lock() && os_now() < end;) ::sched_yield();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return held;
  }
  /// Waits for it, and is counted meanwhile. `spin`: how long it waits awake. Threads of the program do: the background
  /// thread holds the lock for some microseconds, and to sleep and be woken takes longer. It does not spin itself: it
  /// may have interrupted the thread that it waits for.
  Held queue_up(Duration spin = {}) {
    constexpr int kPauses = 16;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    Held held(mutex_, std::defer_lock);
    for (const Instant end = os_now() + spin; !held.try_lock() && os_now() < end;) {
      for (int i = 0; i < kPauses; ++i) pause_processor();
    }
    if (!held) held.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return held;
  }
  /// Whether a thread waits for it.
  bool is_wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  TurnMutex mutex_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace uroce::engine
