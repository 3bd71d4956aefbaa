// SPDX-License-Identifier: Apache-2.0
// Tells whether some thread polls all the time, or comes back to sleep for the next event, in which case the network is
// best left to it.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/os/os_clock.h"
#include "engine/run/habit.h"
#include "engine/run/pace.h"
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
  /// A poll begins at `now`. That it comes late behind one that has found something tells that the program does
  /// something else; not of one that is known to poll on if the thread was kept from running: `was_preempted()` since
  /// it was late last.
  template <class WasPreempted>
  void on_poll(Instant now, const WasPreempted& was_preempted) {
    poller_.store(cpu_clock_of_this_thread(), std::memory_order_relaxed);
    const bool goes_on = is_recent(now, Pace::of(kPollPause));
    last_.store(now, std::memory_order_relaxed);
    row_.store(goes_on ? row_.load(std::memory_order_relaxed) + 1 : 1, std::memory_order_relaxed);
    if (waits(now)) has_stopped_.store(false, std::memory_order_relaxed);
    if (const Instant posted = posted_.load(std::memory_order_relaxed); posted != Instant{}) {
      posted_.store(Instant{}, std::memory_order_relaxed);
      after_posts_.learn(now - posted <= Pace::of(kPollPause));
    }
    is_told_.store(false, std::memory_order_relaxed);
    if (!found_.exchange(false, std::memory_order_relaxed)) return;
    if (goes_on || !loyalty_.holds() || !was_preempted()) loyalty_.learn(goes_on);
  }
  /// A call that posts something begins at `now`. That it follows another one says nothing, unless it comes late, and
  /// not because the thread was kept from running: `was_preempted()` since it was late last. Returns false then: nobody
  /// has polled in between.
  template <class WasPreempted>
  bool on_post(Instant now, const WasPreempted& was_preempted) {
    // Its memory may have told it to: what it polls for next, it posts now.
    if (is_told_.exchange(false, std::memory_order_relaxed)) found_.store(false, std::memory_order_relaxed);
    const Instant posted = posted_.load(std::memory_order_relaxed);
    if (posted == Instant{} || now - posted <= Pace::of(kPostPause) || was_preempted()) return true;
    on_absence();
    return false;
  }
  /// Whether a post at `now` comes right behind another one.
  bool continues_posts(Instant now) const {
    const Instant posted = posted_.load(std::memory_order_relaxed);
    return posted != Instant{} && now - posted <= Pace::of(kPostRow);
  }
  /// It ended at `now`.
  void on_posted(Instant now) { posted_.store(now, std::memory_order_relaxed); }
  /// The work that a poll gave rise to ended at `now`: it is no pause. `found`: packets had come; `is_told`: WRITEs
  /// among them, to which the program may react.
  void on_poll_done(Instant now, bool found, bool is_told = false) {
    on_call_done(now);
    if (found) found_.store(true, std::memory_order_relaxed);
    if (is_told) is_told_.store(true, std::memory_order_relaxed);
  }
  /// Another call of the program ended at `now`: no pause either.
  void on_call_done(Instant now) { last_.store(now, std::memory_order_relaxed); }
  /// The background thread has taken a peer's WRITE. What the program does next may be the answer to that.
  void on_written() { is_told_.store(true, std::memory_order_relaxed); }
  /// The poller says that it is going to sleep.
  void on_stop() {
    has_stopped_.store(true, std::memory_order_relaxed);
    posted_.store(Instant{}, std::memory_order_relaxed);
    row_.store(0, std::memory_order_relaxed);
    found_.store(false, std::memory_order_relaxed);
  }
  /// The processor time that the thread which polled last has had.
  Duration poller_ran() const { return cpu_time(poller_.load(std::memory_order_relaxed)); }
  /// Packets were left to a poller that did not come.
  void on_absence() {
    if (posted_.exchange(Instant{}, std::memory_order_relaxed) != Instant{}) after_posts_.learn(false);
  }
  /// The poller was relied on and did not come again although it was running, and packets were waiting for it.
  void on_deserted(Instant now) {
    strict_until_.store(now + kStrictFor, std::memory_order_relaxed);
    loyalty_.forget();
    after_posts_.forget();
  }

  /// Whether a thread waits for packets by polling.
  bool waits(Instant now) const {
    return row_.load(std::memory_order_relaxed) >= (is_strict(now) ? kPollsToMaskStrictly : kPollsToMask);
  }
  /// Whether it will go on when it has found something.
  bool is_loyal(Instant now) const { return loyalty_.holds() && !is_strict(now); }
  /// Whether it will poll at once when it has posted something. Not a program that sleeps for events: it may post from
  /// another thread meanwhile.
  bool follows_posts(Instant now) const {
    return after_posts_.holds() && !is_strict(now) && !has_stopped_.load(std::memory_order_relaxed);
  }
  /// Whether the last poll is at most `age` old.
  bool is_recent(Instant now, Duration age) const { return now - last_.load(std::memory_order_relaxed) <= age; }

 private:
  bool is_strict(Instant now) const { return now < strict_until_.load(std::memory_order_relaxed); }

  std::atomic<Instant> last_{};         ///< When the last poll, or other call, began or ended, whichever was later.
  std::atomic<std::uint32_t> row_ = 0;  ///< Polls without a pause.
  std::atomic<bool> found_ = false;     ///< By the last poll.
  std::atomic<bool> is_told_ = false;   ///< A WRITE may have told the program to do what it does next.
  Habit loyalty_;
  std::atomic<Instant> posted_{};  ///< When something was posted last that no poll has followed yet; else Instant{}.
  Habit after_posts_;              ///< Polls that follow posts.
  std::atomic<bool> has_stopped_ = false;  ///< It has said so last, and not polled in a row since.
  std::atomic<Instant> strict_until_{};
  std::atomic<clockid_t> poller_ = CLOCK_THREAD_CPUTIME_ID;
};

/// Watches a thread that sleeps for events, and says whether it comes back for the next one soon, and posts something
/// before. Any thread may call anything.
class SleepWatch {
 public:
  /// It goes to sleep at `now`.
  void on_sleep(Instant now) {
    const Instant left = left_.exchange(Instant{}, std::memory_order_relaxed);
    if (left != Instant{}) {
      comes_back_.learn(now - left <= Pace::of(kSleeperPause));
      posts_.learn(has_posted_.load(std::memory_order_relaxed));
    }
    last_.store(now, std::memory_order_relaxed);
  }
  /// It has its event, and goes on with that.
  void on_event(Instant now) {
    has_posted_.store(false, std::memory_order_relaxed);
    left_.store(now, std::memory_order_relaxed);
    last_.store(now, std::memory_order_relaxed);
  }
  /// Something is posted.
  void on_post() { has_posted_.store(true, std::memory_order_relaxed); }
  /// It was expected and has not come.
  void on_absence() {
    left_.store(Instant{}, std::memory_order_relaxed);
    comes_back_.learn(false);
  }
  bool comes_back() const { return comes_back_.holds(); }
  /// Whether it posts something before.
  bool posts() const { return posts_.holds(); }
  /// Whether it went to sleep, or got its event, at most `age` ago.
  bool is_recent(Instant now, Duration age) const { return now - last_.load(std::memory_order_relaxed) <= age; }

 private:
  std::atomic<Instant> left_{};  ///< When it got the event with which it is busy; else Instant{}.
  std::atomic<Instant> last_{};
  std::atomic<bool> has_posted_ = false;
  Habit comes_back_;
  Habit posts_;
};

}  // namespace uroce::engine
