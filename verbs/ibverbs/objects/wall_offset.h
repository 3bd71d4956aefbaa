// SPDX-License-Identifier: Apache-2.0
// By how much the wall clock is ahead of the clock of completions.
#pragma once

#include <chrono>

namespace uroce::ibv {

/// What to go on with: `known` (zero: nothing yet), or what was `seen` just now. Two clocks are never read at once:
/// what is seen is wrong by `took`, the time between two looks at the one around a look at the other, at most. With a
/// new difference each time, a later completion could have an earlier time; after a step of the wall clock, one is
/// needed.
inline std::chrono::nanoseconds wall_offset(std::chrono::nanoseconds known, std::chrono::nanoseconds seen,
                                            std::chrono::nanoseconds took) {
  constexpr std::chrono::nanoseconds kAtOnce = std::chrono::microseconds(1);
  const bool has_stepped = std::chrono::abs(seen - known) > kAtOnce + took;
  return has_stepped || known == known.zero() ? seen : known;
}

}  // namespace uroce::ibv
