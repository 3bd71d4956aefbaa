// SPDX-License-Identifier: Apache-2.0
// What half round trips took, as a result of a benchmark.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace uroce::bench {

/// Average, median, and what 1 % and 0.1 % of them exceed, all in microseconds. At least one time.
inline nlohmann::json latencies(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  const auto count = static_cast<double>(microseconds.size());
  const auto at = [&](double share) { return microseconds[static_cast<std::size_t>(share * (count - 1))]; };
  return {{"average_us", std::accumulate(microseconds.begin(), microseconds.end(), 0.0) / count},
          {"half_round_trip_us", at(0.5)},
          {"p99_us", at(0.99)},
          {"p999_us", at(0.999)}};
}

}  // namespace uroce::bench
