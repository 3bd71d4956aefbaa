// SPDX-License-Identifier: Apache-2.0
// Whom packets are left to.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "engine/port/port.h"
#include "engine/run/background_sleep.h"
#include "engine/run/poll_watch.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Packets are for threads that poll, or for one that sleeps for events, or else for the background thread: only in the
/// last case do they wake it, and the port is told so (Port::mask_packets()).
///
/// What changes something is called with the NIC's lock held; what only asks needs no lock, unless it says so.
class PacketOwner {
 public:
  /// `background` is how the background thread sleeps: it has to look whether somebody is still there.
  PacketOwner(Port& port, BackgroundSleep& background) : port_(port), sleep_(background) {}

  // Threads that poll.
  /// Whether they are left to threads that poll.
  bool are_left_to_pollers() const { return polled_.load(std::memory_order_relaxed); }
  /// Leaves them to those.
  void leave_to_pollers() {
    polled_.store(true, std::memory_order_seq_cst);
    tell_port();
    sleep_.have_it_watch();
  }
  /// No longer: has packets wake the background thread, and at once if there are any.
  void take_from_pollers(Instant now) {
    polled_.store(false, std::memory_order_relaxed);
    forget_late_sleeper(now);
    tell_port();
    sleep_.on_unmask();
  }

  // Threads that sleep for events. `Sleeper` is known by its address only.
  using Sleeper = const void*;
  /// One more thread goes to sleep at `now`. Returns whether packets are left to it from here on.
  bool on_sleep(Sleeper sleeper, Instant now, bool may_have_them) {
    ++sleepers_;
    if (!may_have_them || sleeper_ != nullptr) return false;
    sleeper_ = sleeper;
    on_sleeper_turn(now);
    habits_.on_sleep(now);
    is_sleeper_due_ = false;
    tell_port();
    sleep_.on_sleeper();
    return true;
  }
  /// It turns the crank.
  void on_sleeper_turn(Instant now) { sleeper_seen_ = now; }
  /// Whether packets are left to it.
  bool are_left_to(Sleeper sleeper) const { return sleeper_ == sleeper; }
  /// It has its event, or `leaves` without one, to sleep elsewhere. Packets were left to it. Returns whether they still
  /// are, for it usually is back soon.
  bool on_event(Instant now, bool leaves) {
    port_.expect_packets(false);  // A thread that was cancelled has not said so.
    if (!leaves) habits_.on_event(now);
    is_sleeper_due_ = !leaves && expects_sleeper();
    sleeper_ = nullptr;
    tell_port();
    --sleepers_;
    if (is_sleeper_due_) sleep_.have_it_watch();
    return is_sleeper_due_;
  }
  /// The same of a thread that packets were never left to.
  void on_other_event() { --sleepers_; }
  /// Whether any thread sleeps for events. With the lock held.
  bool has_sleepers() const { return sleepers_ > 0; }
  /// Whether packets are left to one of them.
  bool are_left_to_sleeper() const { return sleeper_ != nullptr; }
  /// Whether they are left to one that will be back soon.
  bool is_sleeper_due() const { return is_sleeper_due_; }
  /// Whether the sleeper, when it has its event, will be back soon, and nobody else sleeps. If it deceives us, the
  /// background thread does what there is to do, within five milliseconds. With the lock held.
  bool expects_sleeper() const { return sleepers_ == 1 && habits_.comes_back(); }
  /// The program posts something.
  void on_post() { habits_.on_post(); }
  /// Whether a sleeper with its event usually posts something before it is back.
  bool sleeper_posts() const { return habits_.posts(); }
  /// Whether a sleeper came or got its event at most `age` ago.
  bool had_sleeper(Instant now, Duration age) const { return habits_.is_recent(now, age); }

  // By the background thread.
  /// Packets are no longer left to a sleeper that is not there in time.
  void forget_late_sleeper(Instant now) {
    if (!is_sleeper_due_ || had_sleeper(now, kPollerTrust)) return;
    is_sleeper_due_ = false;
    habits_.on_absence();
    tell_port();
  }
  /// Packets are no longer left to a sleeper that does not come for them: some were there.
  void dismiss_late_sleeper(Instant now) {
    if (sleeper_ == nullptr || now - sleeper_seen_ < kSleeperTrust) return;
    sleeper_ = nullptr;
    --sleepers_;
    port_.expect_packets(false);
    tell_port();
  }

  /// Whether packets do not wake the background thread. With the lock held.
  bool are_masked() const { return port_masked_; }

 private:
  void tell_port() {
    const bool wanted = are_left_to_pollers() || sleeper_ != nullptr || is_sleeper_due_;
    if (std::exchange(port_masked_, wanted) != wanted) port_.mask_packets(wanted);
  }

  Port& port_;
  BackgroundSleep& sleep_;
  std::atomic<bool> polled_ = false;
  std::atomic<Sleeper> sleeper_ = nullptr;
  SleepWatch habits_;
  Instant sleeper_seen_{};  ///< When it came, or last turned the crank.
  int sleepers_ = 0;        ///< Threads that sleep for events, unless they were dismissed.
  std::atomic<bool> is_sleeper_due_ = false;
  bool port_masked_ = false;  ///< What the port was told.
};

}  // namespace uroce::engine
