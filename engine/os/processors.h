// SPDX-License-Identifier: Apache-2.0
// Where threads run, and for how long.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>

#include "proto/base/clock.h"

namespace uroce::engine {

/// Whether `thread`, 0: the calling one, has one processor only (sched_getaffinity(2): taskset, cpusets, processors
/// that were switched off). As of now.
inline bool has_one_processor(pid_t thread = 0) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(thread, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
}

/// Whether a NIC's process has one processor only, as of a moment ago: the processors that its background thread may
/// use. Threads of the program may be bound to one each. Any thread may call anything.
class OneProcessor {
 public:
  explicit operator bool() const { return is_one_.load(std::memory_order_relaxed); }
  /// The background thread begins.
  void on_background(pid_t thread) { background_.store(thread, std::memory_order_relaxed); }
  /// Looks again now and then: somebody may have changed it. To be called often.
  void look(Instant now) {
    const pid_t thread = background_.load(std::memory_order_relaxed);
    if (thread == 0 || now - looked_.load(std::memory_order_relaxed) < kLookAgain) return;
    looked_.store(now, std::memory_order_relaxed);
    is_one_.store(has_one_processor(thread), std::memory_order_relaxed);
  }

 private:
  static constexpr Duration kLookAgain = std::chrono::milliseconds(50);  ///< 0.2 us each time.

  std::atomic<bool> is_one_ = has_one_processor();
  std::atomic<pid_t> background_ = 0;
  std::atomic<Instant> looked_{};
};

/// Has the calling thread run on another processor than `processor`, if it may use others. The kernel may move it back
/// at any time: what it may use is as before (also if somebody changes that in this very moment).
void leave_processor(int processor);

/// Asks the scheduler to let the calling thread run soon after it wakes up, and for a short time only: slices of 100 us
/// instead of milliseconds (Linux 6.12 and later: EEVDF with custom slices, sched_setattr(2)). Its share of the
/// processor remains the same. Older kernels, and containers that refuse it, change nothing.
void ask_for_short_slices();

/// One step of a short wait for another processor: leaves the pipeline to a hyperthread.
inline void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace uroce::engine
