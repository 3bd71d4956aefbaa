// SPDX-License-Identifier: Apache-2.0
// How long a cache line takes from one processor to another and back. On some machines that changes while they run.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "engine/os/processors.h"

namespace uroce::bench {
namespace {

/// Binds the calling thread to the first or the last of `processors`.
void bind_to(const cpu_set_t& processors, bool first) {
  int chosen = -1;
  for (int i = 0; i < CPU_SETSIZE && (chosen < 0 || !first); ++i) {
    if (CPU_ISSET(i, &processors)) chosen = i;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one);
}

void cache_line(benchmark::State& state) {
  if (engine::has_one_processor()) return state.SkipWithError("one processor");
  cpu_set_t processors;
  ::pthread_getaffinity_np(::pthread_self(), sizeof processors, &processors);
  bind_to(processors, true);
  constexpr std::uint64_t kStop = ~std::uint64_t{0};
  alignas(128) std::atomic<std::uint64_t> line = 0;
  std::thread echo([&] {
    bind_to(processors, false);
    for (std::uint64_t there = 1;; there += 2) {
      std::uint64_t seen = line.load(std::memory_order_acquire);
      while (seen < there) seen = line.load(std::memory_order_acquire);
      if (seen == kStop) return;
      line.store(there + 1, std::memory_order_release);
    }
  });
  std::uint64_t there = 1;
  const auto send = [&] {
    line.store(there, std::memory_order_release);
    while (line.load(std::memory_order_acquire) == there) continue;
    there += 2;
  };
  send();  // Both run now.
  for (auto _ : state) send();
  line.store(kStop, std::memory_order_release);
  echo.join();
  ::pthread_setaffinity_np(::pthread_self(), sizeof processors, &processors);
}
BENCHMARK(cache_line)->UseRealTime();

}  // namespace
}  // namespace uroce::bench
