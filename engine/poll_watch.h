// Tells whether some thread polls all the time, in which case the network is best left to it.
#pragma once

#include <atomic>

#include "proto/base/clock.h"

namespace uroce::engine {

/// A program that sleeps until an event comes also polls now and then, until its CQ is empty. Only an uninterrupted
/// row of polls that found nothing counts as polling. Any thread may call anything.
class PollWatch {
 public:
  /// A poll at `now`. What two threads do at the same moment may be counted once: this is a heuristic.
  void on_poll(Instant now) {
    const std::int64_t time = now.time_since_epoch().count();
    const std::int64_t gap = time - last_.exchange(time, std::memory_order_relaxed);
    const std::uint32_t row = gap <= kGapMax.count() ? row_.load(std::memory_order_relaxed) + 1 : 1;
    if (row <= kRow) row_.store(row, std::memory_order_relaxed);
  }
  /// The poller says that it is going to sleep.
  void on_stop() { row_.store(0, std::memory_order_relaxed); }

  /// Until when the poller is trusted to come again; in the past when nobody polls.
  Instant trusted_until() const {
    if (row_.load(std::memory_order_relaxed) < kRow) return Instant::min();
    return Instant{Duration{last_.load(std::memory_order_relaxed)}} + kTrust;
  }

 private:
  static constexpr std::uint32_t kRow = 8;
  static constexpr Duration kGapMax = std::chrono::microseconds(100);
  static constexpr Duration kTrust = std::chrono::milliseconds(1);

  std::atomic<std::int64_t> last_ = 0;
  std::atomic<std::uint32_t> row_ = 0;
};

}  // namespace uroce::engine
