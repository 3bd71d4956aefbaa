// SPDX-License-Identifier: Apache-2.0
// Many seeds, one after the other: reports, captures, exit status.
#pragma once

#include <string>

#include "tests/judged/sim/simulation.h"

namespace uroce::simulator {

inline constexpr int kExitUsage = 2, kExitCrash = 127, kExitLiveness = 128, kExitCorrectness = 129;

struct Campaign {
  std::string program;
  std::uint64_t first = 1;
  std::uint64_t count = 1;
  std::string pcap;          ///< Capture of the one seed; "" = none.
  std::string folder = ".";  ///< For captures of failing seeds.
  bool keep_going = false;
  bool verbose = false;
  bool wrap = false;   ///< Scenarios whose PSNs wrap around.
  bool tally = false;  ///< Print how often what came up.
  Sabotage sabotage = Sabotage::kNone;

  /// "FIRST..LAST"; throws CLI::ValidationError.
  void set_range(const std::string& range);
  /// Runs all seeds and prints a summary; returns the exit status.
  int run() const;

 private:
  int run_seed(std::uint64_t seed, std::uint64_t& packets, Tally& tally) const;
};

}  // namespace uroce::simulator
