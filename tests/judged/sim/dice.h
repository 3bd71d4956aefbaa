// SPDX-License-Identifier: Apache-2.0
// Draws on top of Random, for what a seed decides.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "engine/sim/random.h"
#include "proto/base/clock.h"

namespace uroce::simulator {

class Dice {
 public:
  explicit Dice(engine::sim::Random random) : random_(random) {}
  bool chance(double p) { return random_.chance(p); }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + random_.below(high - low + 1); }
  std::uint32_t u32(std::uint32_t low, std::uint32_t high) { return static_cast<std::uint32_t>(between(low, high)); }
  std::uint8_t u8(unsigned low, unsigned high) { return static_cast<std::uint8_t>(between(low, high)); }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[random_.below(from.size())];
  }
  /// Uniform in the exponent: small values come as often as large ones.
  Duration spread(Duration low, Duration high) {
    Duration bound = low;
    while (bound < high && chance(0.75)) bound *= 2;
    return low + Duration{static_cast<Duration::rep>(random_.below(static_cast<std::uint64_t>(
                     std::max<Duration::rep>(1, (std::min(bound, high) - low).count() + 1))))};
  }
  /// A probability up to `most`, mostly far below it.
  double rate(double most) {
    double p = most;
    while (p > most / 256 && chance(0.6)) p /= 2;
    return p;
  }
  /// A moment before `end`.
  Duration moment(Duration end) {
    return Duration{static_cast<Duration::rep>(between(0, static_cast<std::uint64_t>(end.count())))};
  }

 private:
  engine::sim::Random random_;
};

}  // namespace uroce::simulator
