// SPDX-License-Identifier: Apache-2.0
// What threads of the program do that post and poll: see runner.h.
#pragma once

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/os/interruption.h"
#include "engine/os/os_clock.h"
#include "engine/os/poll_all.h"
#include "engine/run/crowd_watch.h"
#include "engine/run/drive.h"
#include "proto/base/check.h"
#include "proto/base/no_cancellation.h"

namespace uroce::engine {

/// All with the lock held, which `held` stands for. Some sleep without it in between.
template <SansIoNic N>
class Poller {
 public:
  explicit Poller(Drive<N>& drive) : d_(drive) {}

  /// Behind a call that may have produced packets or an earlier deadline; `is_post`: it was a post, so that what it
  /// gave rise to may wait for the next call. See Runner::posted().
  void posted(TurnLock::Held& held, bool is_post) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    const bool in_row = d_.polls.is_recent(now, Pace::of(kPollPause));
    note_caller(now);
    d_.packets.on_post();
    if (in_row) d_.polls.on_call_done(now);
    if (!d_.polls.on_post(now, was_preempted) && d_.packets.are_left_to_pollers() && !d_.polls.is_loyal(now))
      d_.take_from_pollers();
    // Where packets are the background thread's.
    const bool is_left = is_post && !d_.packets.are_left_to_pollers();
    const bool looks_out = is_left && d_.writes_after_posts.should_look_out();
    bool more = false;
    Instant done = now;
    // Without a system call to save, the first packet behind a poll need not wait for the next one. (With a single
    // processor, who reads it would run in between.)
    const bool is_first = !d_.one_processor && d_.port->was_quick() && !d_.polls.continues_posts(now);
    if ((is_first || !leaves_to_poll(now)) && (!is_post || !leaves_to_next_call(now))) {
      // The answer is for the polls that follow, or for this call. To wake the background thread for that would take
      // longer than it saves.
      if (looks_out ||
          (!d_.packets.are_left_to_pollers() && d_.background_sleep.is_watching() && d_.polls.follows_posts(now)))
        d_.packets.leave_to_pollers();
      more = d_.send(now, d_.packets.are_left_to_pollers() ? kBurstsUnderMask : 1);
      if (more && d_.packets.are_left_to_pollers()) d_.take_from_pollers();
      done = os_now();
      if (in_row) d_.polls.on_call_done(done);
    }
    d_.polls.on_posted(done);
    if (looks_out && d_.packets.are_left_to_pollers()) {
      const bool is_told = await_write(held, d_.writes_after_posts);
      d_.polls.on_poll_done(os_now(), /*found=*/false, is_told);
    } else if (is_left) {
      d_.writes_after_posts.on_left(done);
    }
    d_.inform_background(more);
  }

  /// See Runner::poll().
  void poll(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    CrowdWatch& crowd = note_caller(now);
    d_.polls.on_poll(now, was_preempted);
    if (!d_.packets.are_left_to_pollers() && d_.polls.waits(now)) d_.packets.leave_to_pollers();
    // A poller that can be trusted to come again sends its answers then, in one system call with what it will have
    // posted. If it deceives us, the background thread sends them when trust ends, as with packets that arrive then.
    const SilentWrites writes(d_.nic);
    const Progress progress = d_.turn(now, leaves_to_poll(now) ? Answers::kNextTurn : Answers::kAtOnce);
    const bool was_idle = progress.is_idle();
    crowd.on_turn(&d_, now, was_idle, preemptions);
    bool is_told = d_.may_react(writes);
    // The program may have found what it waited for.
    if (d_.packets.are_left_to_pollers() && progress.received > 0 && !d_.polls.is_loyal(now))
      is_told |= hand_back(held, writes.count() > 0);
    d_.inform_background(/*more=*/progress.transmitted >= kCrankBurst);
    if (was_idle) d_.one_processor.look(now);
    if (was_idle && d_.one_processor) {
      held.unlock();
      ::sched_yield();  // A peer that could send something may need this processor.
      held = d_.lock_for_call();
    } else if (was_idle && d_.port->was_quick()) {
      return;  // `now` is still right.
    }
    d_.polls.on_poll_done(os_now(), progress.received > 0, is_told);
  }

  /// See Runner::found_nothing().
  void found_nothing(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    if (!CrowdWatch::of_this_thread().should_sleep()) return;
    const Instant now = os_now();
    if (!may_sleep(now)) return;
    sleep_for_packets(held, now + kCrowdedSleep);
    d_.polls.on_poll_done(os_now(), /*found=*/false);
  }

  /// See Runner::found().
  void found(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    note_caller(now).on_found();
    d_.polls.on_poll(now, was_preempted);
    // The background thread may bring packets so fast that the program never gets to turn the crank; both lose time.
    if (!d_.packets.are_left_to_pollers() && d_.polls.waits(now) && d_.polls.is_loyal(now))
      d_.packets.leave_to_pollers();
    if (!d_.packets.are_left_to_pollers() || d_.polls.is_loyal(now)) return d_.polls.on_poll_done(now, /*found=*/true);
    // What posts left to the polls behind them is here, and the program may not poll on.
    const bool more = d_.posts_left > 0 && d_.send(now, kBurstsUnderMask);
    const bool is_told = hand_back(held, /*is_written=*/false);
    if (more) d_.inform_background(more);  // Else it looks soon anyway: no wake-up for a deadline.
    d_.polls.on_poll_done(os_now(), /*found=*/true, is_told);
  }

  /// See Runner::stop_polling().
  void stop(const TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    d_.polls.on_stop();
    d_.writes_after_finds.on_stop();
    d_.writes_after_posts.on_stop();
    if (!d_.packets.are_left_to_pollers()) return;
    d_.take_from_pollers();
    d_.inform_background(d_.send(os_now()));
  }

 private:
  /// Notes which thread of the program calls, and returns its watch.
  CrowdWatch& note_caller(Instant now) {
    CrowdWatch& crowd = CrowdWatch::of_this_thread();
    if (std::exchange(caller_, &crowd) != &crowd) alone_since_ = now;
    d_.writes_after_finds.on_call();
    d_.writes_after_posts.on_call();
    return crowd;
  }

  /// Whether a poller will be back in a moment, to send what there is to send.
  bool leaves_to_poll(Instant now) const { return d_.is_polled(now) && d_.polls.is_loyal(now); }
  /// Whether a post in a row, to be called once for each, waits for the next one or for the poll behind the last: one
  /// system call for all of them.
  bool leaves_to_next_call(Instant now) {
    if (!d_.packets.are_left_to_pollers() || d_.poller_sleeps || !d_.polls.follows_posts(now) ||
        !d_.polls.continues_posts(now)) {
      return false;
    }
    return ++d_.posts_left < kPostsTogether;
  }

  /// Whether the calling thread, which polls and has found nothing, may sleep for the next packet. Only if nobody else
  /// needs the turns that it does not take, nor to be told of packets, and nothing waits to be sent.
  bool may_sleep(Instant now) {
    const bool is_alone = now - alone_since_ >= kAloneFor && !d_.packets.has_sleepers() && !d_.packets.is_sleeper_due();
    return is_alone && !d_.one_processor && d_.is_polled(now) && !d_.port->packet_fds().empty() &&
           !d_.port->tx_frame().empty();
  }
  /// Sleeps for such a thread, without the lock, until packets come, the NIC has something to do, or until `latest`.
  /// Returns false for the last.
  bool sleep_for_packets(TurnLock::Held& held, Instant latest) {
    std::vector<pollfd> polled;
    for (const int fd : d_.port->packet_fds()) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    const Instant end = std::min(d_.nic.next_deadline().value_or(latest), latest);
    d_.poller_sleeps = true;
    held.unlock();
    const NoCancellation whole;
    const Instant since = os_now();
    const timespec most = time_until(end);
    const bool came = !d_.port->expect_packets(true) || poll_all(polled, &most) != 0;
    d_.port->expect_packets(false);
    held = d_.lock_for_call();
    d_.poller_sleeps = false;
    const bool in_vain = !came && end == latest;
    CrowdWatch::of_this_thread().on_slept(since, os_now(), in_vain);
    return !in_vain;
  }

  /// Leaves packets to the background thread again, behind a poll that has received some. `is_written`: peers wrote to
  /// the program's memory. When they will do so in a moment, that is taken before: to have the background thread woken
  /// for it costs more. Returns whether it was.
  bool hand_back(TurnLock::Held& held, bool is_written) {
    if (!is_written && d_.writes_after_finds.should_look_out()) return await_write(held, d_.writes_after_finds);
    d_.take_from_pollers();
    if (!is_written) d_.writes_after_finds.on_left(os_now());
    return false;
  }
  /// Takes an answer that is known to come, and then leaves packets to the background thread. Returns whether some of
  /// it came.
  bool await_write(TurnLock::Held& held, WriteWatch& watch) {
    const NoCancellation whole;  // The program has not got what it found, or does not know what it has posted.
    const SilentWrites writes(d_.nic);
    const LookOut done = look_out(held, writes, watch);
    watch.on_look_out(writes.count(), done.is_over);
    if (d_.packets.are_left_to_pollers()) d_.take_from_pollers();
    if (done.more) d_.inform_background(done.more);
    return writes.count() > 0;
  }
  struct LookOut {
    bool is_over = true;  ///< Its time was; else it was interrupted.
    bool more = false;    ///< There is more to send.
  };
  /// Turns the crank until there are as many `writes` as usual, its time is over, or another thread wants the NIC or
  /// has taken over. Behind a post also until it had better sleep, but would wake up late: meanwhile the program could
  /// watch its memory, and the background thread gets a processor at once (ask_for_short_slices()).
  LookOut look_out(TurnLock::Held& held, const SilentWrites<N>& writes, const WriteWatch& watch) {
    CrowdWatch& crowd = CrowdWatch::of_this_thread();
    LookOut done;
    Instant now = os_now();
    const Instant latest = now + Pace::of(kLookOutMost);
    for (Instant end = now + Pace::of(kLookOut); now < end && writes.count() < watch.usual_writes(); now = os_now()) {
      if (d_.lock.is_wanted() || !d_.packets.are_left_to_pollers()) return {.is_over = false, .more = done.more};
      const Progress progress = d_.turn(now, Answers::kAtOnce);
      done.more = progress.transmitted >= kCrankBurst;
      crowd.on_turn(&d_, now, progress.is_idle(), preemptions);
      d_.polls.on_call_done(now);
      bool goes_on = progress.received > 0;
      if (!goes_on && crowd.should_sleep()) {
        if (&watch == &d_.writes_after_posts && crowd.wakes_late()) return {.is_over = false, .more = done.more};
        goes_on = may_sleep(now) && sleep_for_packets(held, std::min(now + kCrowdedSleep, latest));
      }
      if (goes_on) end = std::min(os_now() + Pace::of(kLookOut), latest);
    }
    return done;
  }

  Drive<N>& d_;
  const CrowdWatch* caller_ = nullptr;  ///< That of the thread that called last, ...
  Instant alone_since_{};               ///< ... and since when it has been the only one.
};

}  // namespace uroce::engine
