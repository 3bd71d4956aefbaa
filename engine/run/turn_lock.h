// SPDX-License-Identifier: Apache-2.0
// The lock of a NIC and its port.
#pragma once

#include <atomic>
#include <mutex>

#include "engine/os/os_clock.h"
#include "engine/os/processors.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// A mutex that try_lock() leaves to threads that wait for it: a thread that polls in a tight loop would otherwise
/// take it again before a thread that posts has woken up.
class TurnLock {
 public:
  /// Unless somebody holds it, or waits for it.
  std::unique_lock<std::mutex> try_lock() {
    if (is_wanted()) return {};
    return std::unique_lock(mutex_, std::try_to_lock);
  }
  /// Waits for it, and is counted meanwhile. `spin`: how long it waits awake. Threads of the program do: the background
  /// thread holds the lock for some microseconds, and to sleep and be woken takes longer. It does not spin itself: it
  /// may have interrupted the thread that it waits for.
  std::unique_lock<std::mutex> queue_up(Duration spin = {}) {
    constexpr int kPauses = 16;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock held(mutex_, std::defer_lock);
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
  std::mutex mutex_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace uroce::engine
