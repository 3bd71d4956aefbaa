// SPDX-License-Identifier: Apache-2.0
// What a process has used so far: for benchmarks that report what a result cost.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace uroce::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Processor time and sleeps. Differences of two of these are what is meant.
struct Usage {
  double cpu_seconds = 0;
  std::int64_t sleeps = 0;  ///< Times a thread gave up the processor by itself: each needs a wake-up.

  static Usage of(const rusage& r) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return {seconds(r.ru_utime) + seconds(r.ru_stime), r.ru_nvcsw};
  }
  static Usage now() {
    rusage r{};
    getrusage(RUSAGE_SELF, &r);
    return of(r);
  }
  Usage operator-(const Usage& before) const { return {cpu_seconds - before.cpu_seconds, sleeps - before.sleeps}; }
};

}  // namespace uroce::bench
