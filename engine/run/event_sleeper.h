// SPDX-License-Identifier: Apache-2.0
// What threads of the program do that sleep for events: see runner.h.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "engine/os/interruption.h"
#include "engine/os/os_clock.h"
#include "engine/os/poll_all.h"
#include "engine/os/processors.h"
#include "engine/run/arrival_watch.h"
#include "engine/run/drive.h"
#include "proto/base/check.h"
#include "proto/base/no_cancellation.h"

namespace uroce::engine {

/// Without the lock, which it takes itself.
template <SansIoNic N>
class EventSleeper {
 public:
  explicit EventSleeper(Drive<N>& drive) : d_(drive) {}

  /// See Runner::sleep_until_readable().
  template <class IsReady>
  int sleep_until_readable(int fd, const IsReady& is_ready) {
    std::vector<pollfd> polled{{.fd = fd, .events = POLLIN, .revents = 0}};
    // Who sleeps here need not look out before.
    idle_since_.store(Instant{}, std::memory_order_relaxed);
    own_sleeps_.forget();
    const Turn turn(d_);
    if (turn.is_mine()) {
      for (const int socket : d_.port->packet_fds()) polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    }
    if (is_ready()) return 0;  // To take the turn may have sent something, and completed it.
    if (!turn.is_mine()) return sleep_until_ready(polled, turn, is_ready);
    ::pthread_testcancel();
    const Instant start = os_now();
    const bool has_come = d_.may_stay_awake(arrivals_, start) && look_out(arrivals_, is_ready);
    const int error = has_come ? 0 : sleep_until_ready(polled, turn, is_ready);
    if (error == 0) arrivals_.on_wait(os_now() - start);
    return error;
  }

  /// See Runner::before_sleep().
  template <class IsReady>
  bool before_sleep(const IsReady& is_ready) {
    const Instant start = os_now();
    idle_since_.store(start, std::memory_order_relaxed);
    if (!own_sleeps_.comes_soon() || is_ready()) return false;
    const bool waits = d_.may_stay_awake(own_sleeps_, start);
    // It was expected back from the last time, and packets are still left to it: only it can change that at once.
    if (!waits && !d_.packets.is_sleeper_due()) return false;
    Turn turn(d_);
    if (!turn.is_mine()) return false;
    if (!waits || !(is_ready() || look_out(own_sleeps_, is_ready))) {
      turn.leave();
      return false;
    }
    on_event_taken();
    return true;
  }
  /// See Runner::on_event_taken().
  void on_event_taken() {
    const Instant since = idle_since_.exchange(Instant{}, std::memory_order_relaxed);
    if (since != Instant{}) own_sleeps_.on_wait(os_now() - since);
  }

 private:
  /// While it lives, packets are left to the thread that made it, unless another sleeper has them already.
  class Turn {
   public:
    explicit Turn(Drive<N>& drive) : d_(drive) {
      const NoCancellation whole;
      const TurnLock::Held held = d_.lock_for_call();
      is_mine_ = d_.packets.on_sleep(this, os_now(), !d_.port->packet_fds().empty() && !d_.poller_sleeps);
      if (is_mine_ && (d_.has_kept || d_.posts_left > 0)) d_.inform_background(d_.send(os_now()));
    }
    ~Turn() noexcept(false) {
      const NoCancellation whole;
      const TurnLock::Held held = d_.lock_for_call();
      if (!is_mine_) d_.packets.on_other_event();
      if (!is_mine()) return;  // Or dismissed; what the port expects is up to others now.
      if (!d_.packets.on_event(os_now(), leaves_) && d_.has_kept) d_.inform_background(d_.send(os_now()));
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool is_mine() const { return is_mine_ && d_.packets.are_left_to(this); }
    /// It goes without its event, and sleeps elsewhere: packets are the background thread's.
    void leave() { leaves_ = true; }

   private:
    Drive<N>& d_;
    bool is_mine_ = false;
    bool leaves_ = false;
  };

  struct Woken {
    int ready = 0;  ///< As poll() returns it.
    int error = 0;
  };
  /// From before the last look on, a signal handler that brings the event wakes this thread.
  template <class IsReady>
  Woken sleep_once(std::vector<pollfd>& polled, const Turn& turn, const IsReady& is_ready) {
    const Asleep asleep;
    const bool has_event = is_ready();
    const bool may_sleep = (!turn.is_mine() || d_.port->expect_packets(true)) && !has_event;
    const timespec no_time{};
    const int ready = poll_all(polled, may_sleep ? nullptr : &no_time);
    const int error = errno;
    if (turn.is_mine()) d_.port->expect_packets(false);
    return {ready, error};
  }
  /// Sleeps, and turns the crank whenever a packet has come. `polled`: the descriptor of events, then those of packets.
  template <class IsReady>
  int sleep_until_ready(std::vector<pollfd>& polled, const Turn& turn, const IsReady& is_ready) {
    while (true) {
      const auto [ready, error] = sleep_once(polled, turn, is_ready);
      if (ready < 0 && error == EINTR && handlers_restart()) continue;
      if (ready < 0) return error;
      if (polled.front().revents != 0 || is_ready()) return 0;
      const NoCancellation whole;
      Turned turned = Turned::kUnfinished;
      while (turned == Turned::kUnfinished) turned = turn_crank_once(d_.lock.queue_up(), is_ready);
      if (turned == Turned::kEvent) return 0;
    }
  }
  /// Turns the crank for a sleeper that waits awake where events usually come soon, kLinger at most. Returns whether it
  /// has its event.
  template <class IsReady>
  bool look_out(ArrivalWatch& watch, const IsReady& is_ready) {
    const Instant start = os_now();
    constexpr int kPauses = 16;
    const NoCancellation whole;
    Turned turned = Turned::kNothing;
    while (turned == Turned::kUnfinished || os_now() < start + Pace::of(kLinger)) {
      if (const TurnLock::Held held = d_.lock.try_lock()) {
        turned = turn_crank_once(held, is_ready);
      } else {  // Who has the lock may find it, and must not have to wait for us meanwhile.
        for (int i = 0; i < kPauses; ++i) pause_processor();
        if (turned != Turned::kUnfinished && is_ready()) turned = Turned::kEvent;
      }
      if (turned == Turned::kEvent) return true;
    }
    watch.on_nothing();
    return false;
  }
  enum class Turned : std::uint8_t {
    kNothing,
    kEvent,       ///< The sleeper has it.
    kUnfinished,  ///< There is more to send.
  };
  /// Takes what has come. If the sleeper has its event then, what that gave rise to, the answer above all, waits for
  /// what the sleeper posts, if it usually posts something and comes back: the peer is woken once for both.
  template <class IsReady>
  Turned turn_crank_once(const TurnLock::Held& held, const IsReady& is_ready) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    d_.packets.on_sleeper_turn(now);
    const Progress progress = d_.turn(now, Answers::kNextTurn);
    const bool has_event = is_ready();
    if (progress.is_idle()) {
      d_.inform_background(/*more=*/false);  // Of what the turn before, if it was unfinished, gave rise to.
      return has_event ? Turned::kEvent : Turned::kNothing;
    }
    bool more = progress.transmitted >= kCrankBurst;
    if (has_event && !more && progress.received <= kAnswersKept && d_.packets.expects_sleeper() &&
        d_.packets.sleeper_posts()) {
      keep_answers();
    } else {
      more |= d_.send(os_now());
    }
    if (more && !has_event) return Turned::kUnfinished;
    d_.inform_background(more);
    return has_event || is_ready() ? Turned::kEvent : Turned::kNothing;
  }
  void keep_answers() {
    d_.has_kept = true;
    if constexpr (requires { d_.nic.answer_first(); }) d_.nic.answer_first();
  }

  Drive<N>& d_;
  ArrivalWatch arrivals_;              ///< Of events, here, ...
  ArrivalWatch own_sleeps_;            ///< ... and for a thread that goes on to sleep elsewhere.
  std::atomic<Instant> idle_since_{};  ///< When it was last about to, and has had no event since; else Instant{}.
};

}  // namespace uroce::engine
