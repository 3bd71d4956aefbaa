// SPDX-License-Identifier: Apache-2.0
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

/// One step of a short wait for another processor: leaves the pipeline to a hyperthread.
inline void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace uroce::engine
