#include "engine/os/os_clock.h"

#include <algorithm>

namespace uroce::engine {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Instant os_now() { return Instant{read_clock(CLOCK_MONOTONIC)}; }

std::chrono::nanoseconds wall_clock_now() { return read_clock(CLOCK_REALTIME); }

timespec time_until(Instant deadline) {
  const Duration left = std::max(deadline - os_now(), Duration{});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return timespec{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
}

}  // namespace uroce::engine
