// SPDX-License-Identifier: Apache-2.0
// The one place that asks the operating system for the time.
#pragma once

#include <time.h>

#include <chrono>

#include "proto/base/clock.h"

namespace uroce::engine {

/// CLOCK_MONOTONIC: what drives NICs and what deadlines given to Port::wait() refer to.
Instant os_now();

/// Nanoseconds since the epoch (CLOCK_REALTIME), for time stamps in captures.
std::chrono::nanoseconds wall_clock_now();

/// A clock of the processor time that the calling thread gets; any thread may read it with cpu_time().
clockid_t cpu_clock_of_this_thread();
/// Its reading. 0 once that thread has ended.
Duration cpu_time(clockid_t clock);

/// How often the calling thread has had to leave its processor to others. A system call.
long preemptions();
/// Whether that has happened since it asked this last.
bool was_preempted();

/// How long from now until `deadline`, not negative, as ppoll() wants it.
timespec time_until(Instant deadline);

}  // namespace uroce::engine
