// SPDX-License-Identifier: Apache-2.0
// Time as an argument. Clock has no now(): code below engine/ that asks the operating system for
// the time does not compile. engine/os/os_clock.h is the one place that reads a real clock.
#pragma once

#include <chrono>

namespace uroce {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
};

/// A point in time on whatever clock drives the NIC: CLOCK_MONOTONIC or a virtual one.
using Instant = Clock::time_point;
using Duration = Clock::duration;

}  // namespace uroce
