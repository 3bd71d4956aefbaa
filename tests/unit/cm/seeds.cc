// SPDX-License-Identifier: Apache-2.0
// cm_seeds [FIRST LAST]: runs seeds of tests/unit/cm/seeded_world.h, 1 to 300 if not said. Exits with 1 at the first
// that fails.
#include <cstdio>
#include <cstdlib>

#include "tests/unit/cm/seeded_world.h"

int main(int argc, char** argv) {
  using uroce::cm::test::SeededWorld;
  const unsigned long first = argc > 2 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const unsigned long last = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 300;
  uroce::cm::test::Tally all;
  for (unsigned long seed = first; seed <= last; ++seed) {
    SeededWorld world(seed);
    const std::string wrong = world.run();
    if (!wrong.empty()) {
      std::printf("seed %lu: %s\n", seed, wrong.c_str());
      return 1;
    }
    const auto& one = world.tally();
    all.connects += one.connects;
    all.established += one.established;
    all.rejected += one.rejected;
    all.disconnected += one.disconnected;
    all.deaths += one.deaths;
    all.lost += one.lost;
    all.answers += one.answers;
  }
  std::printf(
      "%lu seeds: %lu connects, %lu established, %lu rejected, %lu disconnected, %lu resolved, %lu deaths, "
      "%lu packets lost, late or damaged\n",
      last - first + 1, all.connects, all.established, all.rejected, all.disconnected, all.answers, all.deaths,
      all.lost);
  // Worlds in which nothing happens prove nothing.
  return all.established > 0 && all.rejected > 0 && all.disconnected > 0 ? 0 : 1;
}
