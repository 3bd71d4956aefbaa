// SPDX-License-Identifier: Apache-2.0
// What the background thread does: see runner.h.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "engine/os/background_thread.h"
#include "engine/os/os_clock.h"
#include "engine/run/arrival_watch.h"
#include "engine/run/drive.h"
#include "engine/run/place_watch.h"

namespace uroce::engine {

template <SansIoNic N>
class Background {
 public:
  explicit Background(Drive<N>& drive) : d_(drive) {}

  /// The thread's work, until another one calls stop().
  void run() {
    d_.one_processor.on_background(::gettid());
    while (!stop_.load(std::memory_order_relaxed)) {
      try {
        go_on();
      } catch (const std::bad_alloc&) {  // The program has taken all the memory that it may have. It goes on.
        nap();
      }
    }
  }
  /// Has run() return.
  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    d_.port->wake();
  }
  /// A thread of the program posts something.
  void on_post() { place_.on_post(); }

 private:
  /// A turn, and a sleep if there is time for it.
  void go_on() {
    if (d_.packets.are_left_to_pollers()) {
      if (watch_poller()) return;
    } else {
      poller_ran_ = {};
    }
    switch (std::exchange(was_look_, false) ? look() : Seen::kNobody) {
      case Seen::kNobody:
        if (turn() || linger()) return;
        break;
      case Seen::kThere:
        break;
      case Seen::kBusy:
        was_look_ = d_.background_sleep.watch_again(may_relax(os_now()));
        return;
    }
    const Instant now = os_now();
    d_.one_processor.look(now);
    leave_program_alone(now);
    // While a program polls time and again, to leave it the packets need not wake this thread.
    if (d_.packets.is_sleeper_due() || d_.polls.is_recent(now, kPollsOver) || d_.packets.had_sleeper(now, kPollsOver)) {
      was_look_ = d_.background_sleep.sleep_watching(may_relax(now));
    } else if (d_.packets.are_left_to_sleeper()) {
      d_.background_sleep.sleep_beside_sleeper();
    } else {
      d_.background_sleep.sleep();
    }
    received_since_sleep_ = 0;
  }

  /// Packets are left to pollers: sleeps until it is time to look again whether the poller is still there. Returns
  /// false when it is not.
  bool watch_poller() {
    was_look_ = false;
    const Instant now = os_now();
    if (!d_.polls.is_recent(now, kPollerTrust)) return false;
    if (may_relax(now)) {
      d_.background_sleep.watch_relaxed();
      poller_ran_ = {};  // In so long a time it may have polled before.
    } else {
      const Duration ran_before = d_.polls.poller_ran();
      d_.background_sleep.watch_for(kPollerTrust);
      poller_ran_ = d_.polls.poller_ran() - ran_before;
    }
    return true;
  }

  enum class Seen : std::uint8_t {
    kNobody,  ///< This thread has to take a turn.
    kThere,   ///< Others take the packets. The next sleep is planned.
    kBusy,    ///< So they do, at this moment. To have them wait for a plan would end their look-outs.
  };
  /// Behind a sleep that nothing has ended but its time.
  Seen look() {
    const Instant now = os_now();
    const TurnLock::Held held = d_.lock.try_lock();
    if (!held && !is_missed(now)) return Seen::kBusy;
    return held && leaves_to_others(now) ? Seen::kThere : Seen::kNobody;
  }
  /// Whether packets are left to a sleeper who has not come for them, or to pollers, of whom watch_poller() knows more.
  /// Those of its own wake this thread.
  bool is_missed(Instant now) const {
    return d_.packets.are_left_to_pollers() || (is_left_to_sleeper() && !d_.packets.had_sleeper(now, kPollerTrust));
  }
  bool is_left_to_sleeper() const { return d_.packets.are_left_to_sleeper() || d_.packets.is_sleeper_due(); }
  /// Where there is nothing to do but to take packets, which others do: plans the next sleep. With the lock held.
  bool leaves_to_others(Instant now) {
    const std::optional<Instant> deadline = d_.nic.next_deadline();
    if (d_.background_sleep.has_to_send() || is_missed(now) || deadline.value_or(Instant::max()) <= now) return false;
    has_taken_ = false;
    d_.background_sleep.on_turn();
    d_.background_sleep.plan_beside_others(now, deadline);
    return true;
  }

  /// Whether the watch that begins at `now` may last longer: others have taken packets for long, and are there.
  bool may_relax(Instant now) {
    return ++watches_ > kWatchesToRelax && (d_.polls.is_recent(now, kIsThere) || d_.packets.had_sleeper(now, kIsThere));
  }

  /// Returns whether another turn is needed before sleeping; if not, Drive::background_sleep knows how long.
  bool turn() {
    const TurnLock::Held held = d_.lock.queue_up();
    const Instant now = os_now();
    if (d_.packets.are_left_to_pollers() && d_.polls.is_recent(now, kPollerTrust))
      return true;  // It was there, in a long turn of its own.
    if (is_left_to_sleeper() && leaves_to_others(now)) return false;
    d_.background_sleep.on_turn();
    const bool took_over = d_.packets.are_left_to_pollers();
    if (took_over) d_.take_from_pollers();
    d_.packets.forget_late_sleeper(now);
    const bool is_deserted = took_over && std::exchange(poller_ran_, Duration{}) > kPollerTrust / 2;
    const bool had_posts = d_.posts_left > 0;
    const SilentWrites writes(d_.nic);
    const Progress progress = d_.turn(now, Answers::kAtOnce);
    received_since_sleep_ += progress.received;
    has_taken_ = progress.received > 0;
    if (took_over) watches_ = 0;
    if (d_.may_react(writes)) d_.polls.on_written();
    if (writes.count() > 0 && !d_.one_processor) {
      d_.writes_after_finds.on_written(now, writes.count());
      d_.writes_after_posts.on_written(now, writes.count());
    }
    if (has_taken_) {
      d_.packets.dismiss_late_sleeper(now);
      arrivals_.on_packets(os_now());
    }
    const bool was_needed = progress.received > 0 || had_posts;
    if (took_over && was_needed) d_.polls.on_absence();
    if (is_deserted && was_needed) d_.polls.on_deserted(now);
    // In a stream more are there by now. Else the sleep will tell, and a turn for nothing costs as much.
    if ((progress.received > 0 && is_stream()) || progress.transmitted >= kCrankBurst) return true;
    d_.background_sleep.plan(now, d_.nic.next_deadline(), progress.received > 0);
    return false;
  }

  bool is_stream() const { return received_since_sleep_ >= kStreamPackets; }
  /// In the midst of a stream, and where requests follow each other, the next packets are here sooner than a sleep and
  /// a wake-up take, of which the sender, too, pays a part. Looks out for them a little, without the lock. Returns
  /// whether something came. On a single processor it would keep the sender from sending them.
  bool linger() {
    if (d_.one_processor) return false;
    const Instant start = os_now();
    const bool in_stream = is_stream();
    if (!in_stream && !stays_awake(start)) return false;
    const Instant deadline = d_.background_sleep.wake_at().value_or(Instant::max());
    // No more yields: on a busy machine each gives the core away for milliseconds.
    while (!d_.port->wait(start)) {
      const Instant now = os_now();
      if (now < std::min(start + Pace::of(kLinger), deadline)) continue;
      if (!in_stream && now < deadline) arrivals_.on_nothing();
      return false;
    }
    if (!in_stream) received_since_sleep_ = 0;  // One by one they are no stream.
    return true;
  }
  /// Whether the next packet usually comes soon, behind one that was taken, and nobody else wants this processor.
  bool stays_awake(Instant now) {
    return has_taken_ && !d_.packets.are_left_to_pollers() && !d_.packets.is_sleeper_due() &&
           d_.may_stay_awake(arrivals_, now);
  }

  /// Moves this thread to another processor when it keeps interrupting the program that it works for.
  void leave_program_alone(Instant now) {
    if (d_.one_processor) return;
    const int processor = ::sched_getcpu();
    if (place_.is_in_the_way(now, processor, received_since_sleep_, [this] { return d_.polls.poller_ran(); })) {
      leave_processor(processor);
    }
  }

  Drive<N>& d_;
  std::atomic<bool> stop_ = false;
  PlaceWatch place_;
  // The thread's own:
  ArrivalWatch arrivals_;
  Duration poller_ran_{};                 ///< While it was watched for kPollerTrust, the last time.
  bool was_look_ = false;                 ///< It woke up to look whether others are there, and for nothing else.
  int watches_ = 0;                       ///< In a row at whose end others had taken the packets.
  bool has_taken_ = false;                ///< Packets, in its last turn.
  std::size_t received_since_sleep_ = 0;  ///< Packets.
};

}  // namespace uroce::engine
