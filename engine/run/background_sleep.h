// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps, and what it has to be woken for.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>

#include "engine/os/os_clock.h"
#include "engine/port/port.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// It sleeps until the NIC's next deadline as of its last turn, or until it is woken: by packets, unless they are
/// masked, or by a thread that knows of something earlier. While packets are left to somebody it sleeps for a short
/// time only, and then looks whether he is still there: it need not be woken for anything.
class BackgroundSleep {
 public:
  explicit BackgroundSleep(Port& port) : port_(port) {}

  // By the background thread, with the NIC's lock held.
  /// A turn begins: it will see what it was woken for.
  void on_turn() { informed_ = has_to_send_ = false; }
  /// Whether it was woken to send something.
  bool has_to_send() const { return has_to_send_; }
  /// It may sleep as far as that turn goes: until the NIC's next `deadline`. `received`: the turn brought packets.
  void plan(Instant now, std::optional<Instant> deadline, bool received) {
    // An earlier time than the NIC needs does no harm, and not having to be woken for the next deadline, which is
    // usually a moved retransmission timer, is worth one turn for nothing.
    const bool has_time = until_ > now && until_ != Instant::max();
    const Instant latest = received ? now + kSleepAfterPackets : Instant::max();
    until_ = std::min({deadline.value_or(latest), latest, has_time ? until_ : latest});
    wake_at_ = until_ == Instant::max() ? std::nullopt : std::optional(until_);
  }
  /// The same without a turn: others take the packets, and post more.
  void plan_beside_others(Instant now, std::optional<Instant> deadline) {
    until_ = std::min(deadline.value_or(Instant::max()), now + kSleepBesideOthers);
    wake_at_ = until_;
  }

  // By the background thread, without the lock.
  /// When the sleep that was planned ends by itself.
  std::optional<Instant> wake_at() const { return wake_at_; }
  /// Sleeps as planned.
  void sleep() { port_.wait(wake_at_); }
  /// The same, but for kPollerTrust at most, or as watch_relaxed() where `may_relax`. Returns whether it was that which
  /// ended it, and not what was planned or a wake-up.
  bool sleep_watching(bool may_relax) {
    const Instant now = os_now(), planned = wake_at_.value_or(Instant::max());
    if (may_relax && planned > now + kRelaxedWatchMost) return watch_relaxed();
    const Instant end = may_relax ? planned : now + kPollerTrust;
    return !watch(std::min(planned, end)) && end < planned;
  }
  /// As a watch of that alone: there is no new plan. Who is busy with the NIC tells it of deadlines before the end.
  bool watch_again(bool may_relax) { return may_relax ? watch_relaxed() : watch_for(kPollerTrust); }
  /// Sleeps as planned, but no longer than kSleeperTrust: packets are left to a thread that sleeps for events.
  void sleep_beside_sleeper() {
    beside_sleeper_.store(true, std::memory_order_seq_cst);
    port_.wait(std::min(wake_at_.value_or(Instant::max()), os_now() + kSleeperTrust));
    beside_sleeper_.store(false, std::memory_order_relaxed);
  }
  /// Sleeps so long, whatever was planned. Returns whether nothing else ended it.
  bool watch_for(Duration time) { return !watch(os_now() + time); }
  /// The same until the kernel's next tick from kRelaxedWatch on, kRelaxedWatchMost at most.
  /// Returns whether it was that which ended it.
  bool watch_relaxed() {
    const Instant now = os_now();
    return !watch(now + kRelaxedWatchMost,
                  [&] { return port_.doze(now + kRelaxedWatch, /*slack=*/kRelaxedWatchMost - kRelaxedWatch); });
  }

  // By any thread, with the lock held.
  /// Whether it will look by itself, and soon.
  bool is_watching() const { return watching_.load(std::memory_order_relaxed); }
  /// It must not sleep for long now: it is to look whether somebody is still there. To be called when that has been
  /// noted.
  void have_it_watch() const {
    if (!watching_.load(std::memory_order_seq_cst)) port_.wake();
  }
  /// A thread that sleeps for events has packets now, which has been noted: it must not sleep for ever.
  void on_sleeper() const {
    if (!beside_sleeper_.load(std::memory_order_seq_cst)) have_it_watch();
  }
  /// Packets are no longer masked. Meanwhile it did not ask the NIC how long it may sleep, nor hear what inform() said.
  void on_unmask() {
    if (is_watching()) until_ = watch_ends_.load(std::memory_order_relaxed);
    informed_ = false;
  }
  /// Whether it has been woken since its last turn, or since packets were unmasked.
  bool is_informed() const { return informed_; }
  /// Wakes it: there is something to send.
  void wake() {
    informed_ = has_to_send_ = true;
    port_.wake();
  }
  /// Wakes it if `deadline` is before the end of its sleep.
  void inform(std::optional<Instant> deadline) {
    const Instant watches_until = is_watching() ? watch_ends_.load(std::memory_order_relaxed) : Instant::min();
    if (!deadline || *deadline >= std::max(until_, watches_until)) return;
    informed_ = true;
    port_.wake();
  }

 private:
  bool watch(Instant end) {
    return watch(end, [&] { return port_.wait(end); });
  }
  /// `sleep()`, which ends at `end`. Returns what that returns.
  template <class Sleep>
  bool watch(Instant end, const Sleep& sleep) {
    watch_ends_.store(end, std::memory_order_relaxed);
    watching_.store(true, std::memory_order_seq_cst);
    const bool is_woken = sleep();
    watching_.store(false, std::memory_order_relaxed);
    return is_woken;
  }

  Port& port_;
  Instant until_ = Instant::max();  ///< Guarded by the lock: when it wakes up by itself.
  bool informed_ = false;           ///< The same.
  bool has_to_send_ = false;        ///< The same.
  std::optional<Instant> wake_at_;  ///< until_, for the background thread alone.
  std::atomic<Instant> watch_ends_{Instant::max()};
  std::atomic<bool> watching_ = false;
  std::atomic<bool> beside_sleeper_ = false;
};

}  // namespace uroce::engine
