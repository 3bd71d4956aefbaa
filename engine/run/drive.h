// SPDX-License-Identifier: Apache-2.0
// What the threads that drive a NIC share: see runner.h.
#pragma once

#include <sched.h>

#include <functional>
#include <memory>
#include <utility>

#include "engine/os/os_clock.h"
#include "engine/os/processors.h"
#include "engine/run/arrival_watch.h"
#include "engine/run/background_sleep.h"
#include "engine/run/crank.h"
#include "engine/run/pace.h"
#include "engine/run/packet_owner.h"
#include "engine/run/poll_watch.h"
#include "engine/run/silent_writes.h"
#include "engine/run/turn_lock.h"
#include "engine/run/write_watch.h"

namespace uroce::engine {

/// A NIC, its port, their lock, whom packets are left to, and what is known of the program's habits. All that is not
/// said to be for any thread is used with the lock held.
template <SansIoNic N>
struct Drive {
  /// Called with the lock held, see Runner.
  using OnProgress = std::function<void()>;
  using BeforeTurn = std::function<void(Instant now)>;

  Drive(N& n, std::unique_ptr<Port> p, OnProgress progress, BeforeTurn before)
      : nic(n), port(std::move(p)), on_progress(std::move(progress)), before_turn(std::move(before)) {}
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  /// The lock, for a thread of the program. To wait for it is no pause between polls.
  TurnLock::Held lock_for_call() {
    if (TurnLock::Held held = lock.try_lock()) return held;
    const Instant now = os_now();
    const bool in_row = polls.is_recent(now, Pace::of(kPollPause));
    TurnLock::Held held = lock.queue_up(one_processor ? Duration() : Pace::of(kLockSpin));
    if (in_row) polls.on_call_done(os_now());
    return held;
  }

  // Moving packets.
  void tell_progress() const {
    if (on_progress) on_progress();
  }
  /// Turns the crank once: receives, sends, runs timers.
  Progress turn(Instant now, Answers answers) {
    begin_turn(now);
    return turn_crank(nic, *port, now, answers, [this] { tell_progress(); });
  }
  /// Has the port take what there is to send, up to a burst; the port is not flushed.
  std::size_t transmit(Instant now) {
    begin_turn(now);
    return take_transmits(nic, *port, now);
  }
  /// Sends what there is, up to so many bursts, and tells of what came of it. Returns whether there may be more.
  bool send(Instant now, int bursts = 1) {
    bool more = true;
    for (int i = 0; more && i < bursts; ++i) {
      const std::size_t count = transmit(i == 0 ? now : os_now());
      if (count > 0) port->flush();
      more = count >= kCrankBurst;
    }
    tell_progress();
    return more;
  }
  /// Wakes the background thread if it sleeps although there is something for it to know: a deadline before the end of
  /// its sleep, or `more` packets than were sent.
  void inform_background(bool more) {
    if (background_sleep.is_informed() || packets.are_left_to_pollers()) return;  // It will look by itself, and soon.
    more ? background_sleep.wake() : background_sleep.inform(nic.next_deadline());
  }

  // Whom packets are left to.
  /// Takes them from the threads that poll.
  void take_from_pollers() {
    packets.take_from_pollers(os_now());
    tell_progress();
  }
  /// Whether packets are left to a thread that polls, and did so a moment ago.
  bool is_polled(Instant now) const {
    return packets.are_left_to_pollers() && !poller_sleeps && polls.is_recent(now, kPollerTrust);
  }
  /// Whether the program may react to what was written in a turn. With one processor the peer runs only while the
  /// program polls or sleeps, so that its WRITEs come to polls.
  bool may_react(const SilentWrites<N>& writes) const { return writes.are_few() && !one_processor; }
  /// Whether what `watch` watches usually comes soon, and nobody else wants this processor, of several. Any thread.
  bool may_stay_awake(ArrivalWatch& watch, Instant now) const {
    if (one_processor || !watch.should_stay_awake(now)) return false;
    ::sched_yield();
    return watch.on_yield(now, os_now());
  }

  N& nic;
  const std::unique_ptr<Port> port;
  const OnProgress on_progress;
  const BeforeTurn before_turn;
  TurnLock lock;
  OneProcessor one_processor;               ///< Any thread.
  BackgroundSleep background_sleep{*port};  ///< How the background thread sleeps.
  PacketOwner packets{*port, background_sleep};
  PollWatch polls;                ///< Any thread.
  WriteWatch writes_after_finds;  ///< Behind polls that found something, ...
  WriteWatch writes_after_posts;  ///< ... and behind posts that no poll followed.
  int posts_left = 0;             ///< Posts of a row that were not sent yet.
  bool has_kept = false;          ///< Answers wait for the sleeper's next call.
  bool poller_sleeps = false;     ///< A thread that polls sleeps for packets.

 private:
  void begin_turn(Instant now) {
    posts_left = 0;
    has_kept = false;
    if (before_turn) before_turn(now);
  }
};

}  // namespace uroce::engine
