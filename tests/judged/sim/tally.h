// SPDX-License-Identifier: Apache-2.0
// How often the things came up that the simulator is about: a campaign without them would prove nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace uroce::simulator {

struct Tally {
  std::map<std::string, std::uint64_t> counts;  ///< By name, so that it prints in order.

  void add(const std::string& what, std::uint64_t n = 1) { counts[what] += n; }
  void add(const Tally& other) {
    for (const auto& [what, n] : other.counts) counts[what] += n;
  }
};

}  // namespace uroce::simulator
