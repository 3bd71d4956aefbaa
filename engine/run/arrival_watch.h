// SPDX-License-Identifier: Apache-2.0
// Tells when a thread that waits for packets had better stay awake for the next one.
#pragma once

#include <algorithm>
#include <atomic>

#include "engine/run/habit.h"
#include "engine/run/pace.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// The target of READs and atomics has a program that sleeps, or does something else, and a background thread that has
/// to be woken for each request. Where requests follow each other, that takes longer than until the next one comes. So
/// it stays awake for a moment, unless others want its processor. So does a thread of the program that sleeps for an
/// event.
///
/// One thread at a time has packets; it and any other may call the rest.
class ArrivalWatch {
 public:
  /// It has taken packets, and was done with them at `now`.
  void on_packets(Instant now) {
    if (done_ != Instant{}) on_wait(now - done_);
    done_ = now;
  }
  /// What it waited for has come after so long.
  void on_wait(Duration took) { comes_soon_.learn(took <= Pace::of(kNextSoon)); }
  bool comes_soon() const { return comes_soon_.holds(); }
  /// Whether the next packet usually comes soon, and nobody wants the processor as far as is known.
  bool should_stay_awake(Instant now) const {
    return comes_soon_.holds() && now >= crowded_until_.load(std::memory_order_relaxed);
  }
  /// It gave its processor away at `before`, and got it back at `now`: soon if nobody else wanted it. Returns whether
  /// that is so.
  bool on_yield(Instant before, Instant now) {
    const Duration took = now - before;
    const int cost = cost_.load(std::memory_order_relaxed);
    if (took <= Pace::of(kYieldForNobody)) {
      if (cost > 1 && undisturbed_.fetch_add(1, std::memory_order_relaxed) + 1 >= kYieldsUndisturbed) {
        undisturbed_.store(0, std::memory_order_relaxed);
        cost_.store(cost / 2, std::memory_order_relaxed);
      }
      return true;
    }
    // Who comes now and then, a thread of the kernel's, costs as much again; who comes back at once wants it all.
    undisturbed_.store(0, std::memory_order_relaxed);
    crowded_until_.store(now + took * cost, std::memory_order_relaxed);
    cost_.store(std::min(2 * cost, kYieldsCostMost), std::memory_order_relaxed);
    return false;
  }
  /// It stayed awake in vain.
  void on_nothing() { comes_soon_.waited_in_vain(); }
  /// Nobody waits so any more.
  void forget() { comes_soon_.forget(); }

 private:
  Instant done_{};
  std::atomic<Instant> crowded_until_{};
  std::atomic<int> cost_ = 1;         ///< Of a yield that takes long, in times as long.
  std::atomic<int> undisturbed_ = 0;  ///< Yields for nobody since the last one for somebody, or since that counted.
  Habit comes_soon_;
};

}  // namespace uroce::engine
