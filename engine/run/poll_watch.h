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
/// it finds something; beyond that, and before it has begun, only where experience says that the program goes on, or
/// that it polls when it has posted.
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
    learn_about_posts(now, /*again=*/0);
    if (!found_.load(std::memory_order_relaxed)) return;
    found_.store(false, std::memory_order_relaxed);
    learn(loyalty_, goes_on);
  }
  /// A call that posted something ended at `now`.
  void on_posted(Instant now) { learn_about_posts(now, count(now)); }
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
    after_posts_.store(0, std::memory_order_relaxed);
  }

  /// Whether a thread waits for packets by polling.
  bool waits(Instant now) const {
    return row_.load(std::memory_order_relaxed) >= (is_strict(now) ? kPollsToMaskStrictly : kPollsToMask);
  }
  /// Whether it will go on when it has found something.
  bool is_loyal(Instant now) const {
    return loyalty_.load(std::memory_order_relaxed) >= kLoyaltyNeeded && !is_strict(now);
  }
  /// Whether it will poll at once when it has posted something.
  bool follows_posts(Instant now) const {
    return after_posts_.load(std::memory_order_relaxed) >= kLoyaltyNeeded && !is_strict(now);
  }
  /// Whether the last poll is at most `age` old.
  bool is_recent(Instant now, Duration age) const {
    return count(now) - last_.load(std::memory_order_relaxed) <= age.count();
  }

 private:
  static std::int64_t count(Instant time) { return time.time_since_epoch().count(); }
  static void learn(std::atomic<int>& points, bool as_hoped) {
    const int change = as_hoped ? 1 : -kLoyaltyLost;
    points.store(std::clamp(points.load(std::memory_order_relaxed) + change, 0, kLoyaltyMax), std::memory_order_relaxed);
  }
  /// At a poll, or at another post, which is no answer to the question if it comes soon. `again`: see posted_.
  void learn_about_posts(Instant now, std::int64_t again) {
    const std::int64_t posted = posted_.load(std::memory_order_relaxed);
    if (posted == 0 && again == 0) return;
    posted_.store(again, std::memory_order_relaxed);
    const bool is_soon = count(now) - posted <= kPollPause.count();
    if (posted != 0 && !(is_soon && again != 0)) learn(after_posts_, is_soon);
  }
  bool is_strict(Instant now) const { return count(now) < strict_until_.load(std::memory_order_relaxed); }

  std::atomic<std::int64_t> last_ = 0;  ///< When the last poll, or other call, began or ended, whichever was later.
  std::atomic<std::uint32_t> row_ = 0;  ///< Polls without a pause.
  std::atomic<bool> found_ = false;     ///< By the last poll.
  std::atomic<int> loyalty_ = 0;
  std::atomic<std::int64_t> posted_ = 0;  ///< When something was posted that no poll has followed yet; 0: nothing was.
  std::atomic<int> after_posts_ = 0;      ///< As loyalty_, about polls that follow posts.
  std::atomic<std::int64_t> strict_until_ = 0;
  std::atomic<clockid_t> poller_ = CLOCK_THREAD_CPUTIME_ID;
};

}  // namespace uroce::engine
