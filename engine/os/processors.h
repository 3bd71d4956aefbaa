// SPDX-License-Identifier: Apache-2.0
// Where threads run, and for how long.
#pragma once

#include <sched.h>

namespace uroce::engine {

/// Whether all threads of this process share one processor (sched_getaffinity(2): taskset, cpusets). As of now: a
/// program that changes it later is not followed.
inline bool has_one_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
}

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
