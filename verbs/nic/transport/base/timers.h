// SPDX-License-Identifier: Apache-2.0
// The timers of one QP: a fixed table, no callbacks, nothing to cancel.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/base/clock.h"

namespace uroce::nic {

enum class Timer : std::uint8_t {
  kAck,     ///< Oldest unacknowledged request packet (IBTA Vol 1, 9.7.6.1.3).
  kRnr,     ///< Waiting after an RNR NAK (9.7.5.2.8).
  kCredit,  ///< No credit left: wait a little for the peer to say that it has posted receives (9.7.7.2).
  kStall,   ///< No progress for a while: stop counting our packets against the window.
  kCount,
  kRoom = kRnr,    ///< For UC and UD: when to look again for room. A QP has one of the two.
  kHold = kStall,  ///< For UC and UD: until when what was sent counts against the window. A QP has one of the two.
};

/// The deadline of a timer that does not run: later than all others.
inline constexpr Instant kNever = Instant::max();

class TimerTable {
 public:
  TimerTable() { stop_all(); }
  void set(Timer t, Instant at) { entry(t) = at; }
  void stop(Timer t) { entry(t) = kNever; }
  void stop_all() { at_.fill(kNever); }
  bool running(Timer t) const { return at(t) != kNever; }
  Instant at(Timer t) const { return at_[static_cast<std::size_t>(t)]; }
  /// True once when the timer is due; it is stopped then.
  bool take_expired(Timer t, Instant now) {
    if (at(t) > now) return false;
    stop(t);
    return true;
  }
  /// When the first of them is due.
  Instant next() const { return *std::min_element(at_.begin(), at_.end()); }

 private:
  Instant& entry(Timer t) { return at_[static_cast<std::size_t>(t)]; }
  std::array<Instant, static_cast<std::size_t>(Timer::kCount)> at_;
};

}  // namespace uroce::nic
