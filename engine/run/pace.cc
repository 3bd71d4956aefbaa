// SPDX-License-Identifier: Apache-2.0
#include "engine/run/pace.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/os/os_clock.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kLoads = 512;
/// The quickest counts: the thread may lose its processor in some.
constexpr int kTries = 64;

// Sanitizers would look at each of the loads.
__attribute__((no_sanitize("address", "thread", "undefined"))) std::uint64_t load(const volatile std::uint64_t* words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLoads; ++i) sum += words[i];
  return sum;
}

}  // namespace

Duration Pace::measure_loads() {
  static const std::array<std::uint64_t, kLoads> kWords{};
  Duration shortest = Duration::max();
  for (int i = 0; i < kTries; ++i) {
    const Instant start = os_now();
    static_cast<void>(load(kWords.data()));
    shortest = std::min(shortest, os_now() - start);
  }
  return shortest;
}

constinit std::atomic<int> Pace::factor_ = 1;

namespace {

[[maybe_unused]] const bool kMeasured = [] {
  Pace::on_loads(Pace::measure_loads());
  return true;
}();

}  // namespace
}  // namespace uroce::engine
