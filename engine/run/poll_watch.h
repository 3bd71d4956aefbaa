// Tells whether some thread polls all the time, in which case the network is best left to it.
#pragma once

#include <atomic>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// A program that sleeps until an event comes also polls now and then, until its CQ is empty. Only an uninterrupted
/// row of polls that found nothing counts as polling.
///
/// A program that watches its memory for the peer's WRITEs polls too, but only until its own have completed. What
/// arrives then would wait for our trust to end, again and again. Where packets had to wait like that, trust takes a
/// far longer row for a while.
///
/// Any thread may call anything.
class PollWatch {
 public:
  /// A poll at `now`. What two threads do at the same moment may be counted once: this is a heuristic.
  void on_poll(Instant now) {
    const std::int64_t time = count(now);
    const PollDemand& demand = time < strict_until_.load(std::memory_order_relaxed) ? kStrictRow : kUsualRow;
    const std::int64_t gap = time - last_.exchange(time, std::memory_order_relaxed);
    const std::uint32_t row = gap <= demand.gap_max.count() ? row_.load(std::memory_order_relaxed) + 1 : 1;
    if (row <= demand.row) row_.store(row, std::memory_order_relaxed);
    trusted_.store(row >= demand.row, std::memory_order_relaxed);
  }
  /// The work that a poll gave rise to ended at `now`: no gap before the next poll.
  void on_poll_done(Instant now) { last_.store(count(now), std::memory_order_relaxed); }
  /// The poller says that it is going to sleep.
  void on_stop() {
    row_.store(0, std::memory_order_relaxed);
    trusted_.store(false, std::memory_order_relaxed);
  }
  /// The poller was trusted and did not come again, and packets were waiting for it.
  void on_deserted(Instant now) {
    strict_until_.store(count(now + kStrictFor), std::memory_order_relaxed);
    on_stop();
  }

  /// Until when the poller is trusted to come again; in the past when nobody polls.
  Instant trusted_until() const {
    if (!trusted_.load(std::memory_order_relaxed)) return Instant::min();
    return Instant{Duration{last_.load(std::memory_order_relaxed)}} + kPollerTrust;
  }

 private:
  static std::int64_t count(Instant time) { return time.time_since_epoch().count(); }

  std::atomic<std::int64_t> last_ = 0;
  std::atomic<std::int64_t> strict_until_ = 0;
  std::atomic<std::uint32_t> row_ = 0;
  std::atomic<bool> trusted_ = false;
};

}  // namespace uroce::engine
