// SPDX-License-Identifier: Apache-2.0
// Tells whether some thread polls all the time, in which case the network is best left to it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/os/os_clock.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Watches the polls of a program and says how far they can be relied on.
///
/// A program that sleeps until an event comes also polls now and then, until its CQ is empty. One that watches its
/// memory for the peer's WRITEs polls too, but only until its own have completed. So a row of polls is relied on until
/// it finds something; beyond that, only where experience says that the program goes on.
///
/// Any thread may call anything. What two threads do at the same moment may be counted once: this is a heuristic.
class PollWatch {
 public:
  /// A poll begins at `now`.
  void on_poll(Instant now) {
    poller_.store(cpu_clock_of_this_thread(), std::memory_order_relaxed);
    const bool goes_on = is_recent(now, kPollPause);
    last_.store(count(now), std::memory_order_relaxed);
    row_.store(goes_on ? row_.load(std::memory_order_relaxed) + 1 : 1, std::memory_order_relaxed);
    if (!found_.load(std::memory_order_relaxed)) return;
    found_.store(false, std::memory_order_relaxed);
    const int change = goes_on ? 1 : -kLoyaltyLost;
    loyalty_.store(std::clamp(loyalty_.load(std::memory_order_relaxed) + change, 0, kLoyaltyMax),
                   std::memory_order_relaxed);
  }
  /// The work that a poll gave rise to ended at `now`: it is no pause. `found`: packets had come.
  void on_poll_done(Instant now, bool found) {
    on_call_done(now);
    if (found) found_.store(true, std::memory_order_relaxed);
  }
  /// Another call of the program ended at `now`: no pause either.
  void on_call_done(Instant now) { last_.store(count(now), std::memory_order_relaxed); }
  /// The poller says that it is going to sleep.
  void on_stop() {
    row_.store(0, std::memory_order_relaxed);
    found_.store(false, std::memory_order_relaxed);
  }
  /// The processor time that the thread which polled last has had.
  Duration poller_ran() const { return cpu_time(poller_.load(std::memory_order_relaxed)); }
  /// The poller was relied on and did not come again although it was running, and packets were waiting for it.
  void on_deserted(Instant now) {
    strict_until_.store(count(now + kStrictFor), std::memory_order_relaxed);
    loyalty_.store(0, std::memory_order_relaxed);
  }

  /// Whether a thread waits for packets by polling.
  bool waits(Instant now) const {
    return row_.load(std::memory_order_relaxed) >= (is_strict(now) ? kPollsToMaskStrictly : kPollsToMask);
  }
  /// Whether it will go on when it has found something.
  bool is_loyal(Instant now) const {
    return loyalty_.load(std::memory_order_relaxed) >= kLoyaltyNeeded && !is_strict(now);
  }
  /// Whether the last poll is at most `age` old.
  bool is_recent(Instant now, Duration age) const {
    return count(now) - last_.load(std::memory_order_relaxed) <= age.count();
  }

 private:
  static std::int64_t count(Instant time) { return time.time_since_epoch().count(); }
  bool is_strict(Instant now) const { return count(now) < strict_until_.load(std::memory_order_relaxed); }

  std::atomic<std::int64_t> last_ = 0;  ///< When the last poll, or other call, began or ended, whichever was later.
  std::atomic<std::uint32_t> row_ = 0;  ///< Polls without a pause.
  std::atomic<bool> found_ = false;     ///< By the last poll.
  std::atomic<int> loyalty_ = 0;
  std::atomic<std::int64_t> strict_until_ = 0;
  std::atomic<clockid_t> poller_ = CLOCK_THREAD_CPUTIME_ID;
};

}  // namespace uroce::engine
