// SPDX-License-Identifier: Apache-2.0
// Tells when a thread that polls had better sleep for the next packet.
#pragma once

#include <cstdint>

#include "engine/run/pace.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// A thread that polls for what has not come yet uses up its share of a processor. Where others want it, too, it does
/// not run when the packet comes, and the peer on this host, from which that should come, does not run meanwhile. A
/// thread that sleeps keeps its share, and runs soon after it is woken.
///
/// There is one for each thread: of_this_thread().
class CrowdWatch {
 public:
  static CrowdWatch& of_this_thread() {
    static thread_local CrowdWatch watch;
    return watch;
  }

  /// The thread has polled, and turns the crank of `nic` at `now`; `was_idle`: nothing came of it. `preemptions()`: how
  /// often it has had to leave its processor to others; asked when a row of polls begins, and behind a pause in one.
  template <class Preemptions>
  void on_turn(const void* nic, Instant now, bool was_idle, const Preemptions& preemptions) {
    const Duration pause = now - last_;
    last_ = now;
    if (pause <= Pace::of(kPreemptedPause)) {
      if (++row_ == kPollsToMask) preemptions_ = preemptions();
    } else {
      if (row_ >= kPollsToMask && preemptions() != preemptions_) crowded_until_ = now + kCrowdedFor;
      row_ = 1;
    }
    if (nic_ != nic) {
      nic_ = nic;
      nic_since_ = now;
    }
    if (!was_idle) {
      on_found();
    } else if (idle_since_ == Instant{} || pause > Pace::of(kPollPause)) {
      idle_since_ = now;
    }
  }
  /// Whether the thread, which has found nothing behind that turn either, should sleep. It does not where it polls
  /// several NICs, one after the other.
  bool should_sleep() const {
    return last_ < crowded_until_ && !has_slept_in_vain_ && idle_since_ != Instant{} &&
           last_ - idle_since_ >= Pace::of(kCrowdedSpin) && last_ - nic_since_ >= kAloneFor;
  }
  /// A poll has found something.
  void on_found() {
    idle_since_ = {};
    has_slept_in_vain_ = false;
  }
  /// It slept from `since` to `now`. `in_vain`: the time was up. Then it does not sleep again before something has
  /// come: it may wait for something that is no packet.
  void on_slept(Instant since, Instant now, bool in_vain) {
    last_ = now;
    has_slept_in_vain_ = in_vain;
    if (now - since > 2 * kCrowdedSleep) wakes_late_until_ = now + kCrowdedFor;
  }
  /// Whether those who want the processor keep it: the thread has lately had to wait for it behind a sleep.
  bool wakes_late() const { return last_ < wakes_late_until_; }

 private:
  Instant last_{};         ///< Turn, or end of a sleep.
  std::uint32_t row_ = 0;  ///< Turns without a pause of kPreemptedPause.
  long preemptions_ = 0;   ///< When the row began.
  Instant crowded_until_{};
  const void* nic_ = nullptr;  ///< Of the last turn, ...
  Instant nic_since_{};        ///< ... and since when of that NIC alone.
  Instant idle_since_{};       ///< The first of a row of turns for nothing; Instant{}: the last one was not.
  bool has_slept_in_vain_ = false;
  Instant wakes_late_until_{};
};

}  // namespace uroce::engine
