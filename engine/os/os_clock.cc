// SPDX-License-Identifier: Apache-2.0
#include "engine/os/os_clock.h"

#include <pthread.h>
#include <sys/resource.h>

#include <utility>

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

clockid_t cpu_clock_of_this_thread() {
  static thread_local const clockid_t kClock = [] {
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
    ::pthread_getcpuclockid(::pthread_self(), &clock);
    return clock;
  }();
  return kClock;
}

Duration cpu_time(clockid_t clock) { return read_clock(clock); }

long preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

bool was_preempted() {
  static thread_local long before = 0;
  const long now = preemptions();
  return std::exchange(before, now) != now;
}

timespec time_until(Instant deadline) {
  const Instant now = os_now();
  const Duration left = deadline > now ? deadline - now : Duration{};  // Instant::min() is a deadline, too.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return timespec{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
}

}  // namespace uroce::engine
