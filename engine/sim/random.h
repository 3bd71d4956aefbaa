// SPDX-License-Identifier: Apache-2.0
// A small deterministic generator: the same seed gives the same sequence on every machine and with every standard
// library (std:: distributions promise neither). Not for cryptography.
#pragma once

#include <cstdint>

#include "proto/base/mix.h"

namespace uroce::engine::sim {

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush, every seed is a good one.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    return mix(state_);
  }
  /// Uniform in [0, bound); 0 when bound is 0. The bias of the modulo is below 2^-32 for any bound a test uses.
  constexpr std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  /// True with `probability` in [0, 1]. Always draws once, so that the sequence does not depend on the outcome.
  constexpr bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability; }
  /// An independent generator for one concern: switching one kind of fault off must not move the others.
  constexpr Random split(std::uint64_t concern) const {
    Random child{state_ ^ (concern + 1) * 0xD1342543DE82EF95u};
    return Random{child.next()};
  }

 private:
  std::uint64_t state_;
};

}  // namespace uroce::engine::sim
