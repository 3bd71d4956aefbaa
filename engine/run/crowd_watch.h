// SPDX-License-Identifier: Apache-2.0
// Tells when a thread that polls had better sleep for the next packet.
#pragma once

#include <cstdint>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// A thread that polls for what has not come yet uses up its share of a processor. Where others want it, too, it does
/// not run when the packet comes, and the peer on this host, from which that should come, does not run meanwhile. A
/// thread that sleeps keeps its share, and runs soon after it is woken.
///
/// There is one for each thread.
class CrowdWatch {
 public:
  static CrowdWatch& of_this_thread() {
    static thread_local CrowdWatch watch;
    return watch;
  }

  /// The thread has polled, and turns the crank of `nic` at `now`; `was_idle`: for nothing. Returns whether it should
  /// sleep. `was_preempted()`: whether it had to leave its processor to others since it was asked last; asked seldom.
  template <class WasPreempted>
  bool on_turn(const void* nic, Instant now, bool was_idle, const WasPreempted& was_preempted) {
    const bool goes_on = now - last_ <= kPreemptedPause;
    if (!goes_on && row_ >= kPollsToMask && was_preempted()) crowded_until_ = now + kCrowdedFor;
    row_ = goes_on ? row_ + 1 : 1;
    last_ = now;
    if (!was_idle || nic_ != nic) {
      nic_ = nic;
      on_found();
      return false;
    }
    if (idle_since_ == Instant{}) idle_since_ = now;
    return now < crowded_until_ && !has_slept_in_vain_ && now - idle_since_ >= kCrowdedSpin;
  }
  /// A poll has found something.
  void on_found() {
    idle_since_ = {};
    has_slept_in_vain_ = false;
  }
  /// It slept until `now`. When nothing came, it does not sleep again before something has: it may wait for something
  /// that is no packet.
  void on_slept(Instant now, bool in_vain) {
    last_ = now;
    has_slept_in_vain_ = in_vain;
  }

 private:
  const void* nic_ = nullptr;  ///< Of the last turn. A thread that polls two is not to sleep for one of them.
  Instant last_{};             ///< Turn, or end of a sleep.
  std::uint32_t row_ = 0;      ///< Turns without a pause.
  Instant idle_since_{};       ///< The first turn for nothing since one that was not; Instant{}: none.
  bool has_slept_in_vain_ = false;
  Instant crowded_until_{};
};

}  // namespace uroce::engine
