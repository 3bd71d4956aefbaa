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

}  // namespace uroce::engine
