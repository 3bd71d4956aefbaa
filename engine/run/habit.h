// SPDX-License-Identifier: Apache-2.0
// What usually happens next, learned from what has happened.
#pragma once

#include <algorithm>
#include <atomic>

#include "engine/run/tunables.h"

namespace uroce::engine {

/// What a program usually does, in points: more of them, the more often it did as hoped.
class Habit {
 public:
  void learn(bool as_hoped) {
    const int change = as_hoped ? 1 : -kLoyaltyLost;
    points_.store(std::clamp(points_.load(std::memory_order_relaxed) + change, 0, kLoyaltyMax),
                  std::memory_order_relaxed);
  }
  /// Somebody relied on it, waited, and nothing came.
  void waited_in_vain() {
    for (int i = 0; i < kLookOutsLost; ++i) learn(false);
  }
  void forget() { points_.store(0, std::memory_order_relaxed); }
  bool holds() const { return points_.load(std::memory_order_relaxed) >= kLoyaltyNeeded; }

 private:
  std::atomic<int> points_ = 0;
};

}  // namespace uroce::engine
