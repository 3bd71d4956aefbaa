// SPDX-License-Identifier: Apache-2.0
// The timers of one QP: a fixed table, no callbacks, nothing to cancel.
#pragma once

#include <array>
#include <optional>

#include "proto/base/clock.h"

namespace uroce::nic {

enum class Timer : std::uint8_t {
  kAck,     ///< Oldest unacknowledged request packet (IBTA Vol 1, 9.7.6.1.3).
  kRnr,     ///< Waiting after an RNR NAK (9.7.5.2.8).
  kCredit,  ///< No credit left: wait a little for the peer to say that it has posted receives (9.7.7.2).
  kStall,   ///< No progress for a while: stop counting our packets against the window.
  kCount,
  kHold = kStall,  ///< For UC and UD: until when what was sent counts against the window. A QP has one of the two.
};

class TimerTable {
 public:
  void set(Timer t, Instant at) { slot(t) = at; }
  void stop(Timer t) { slot(t).reset(); }
  void stop_all() { at_ = {}; }
  bool running(Timer t) const { return at_[static_cast<std::size_t>(t)].has_value(); }
  std::optional<Instant> at(Timer t) const { return at_[static_cast<std::size_t>(t)]; }
  /// True once when the timer is due; it is stopped then.
  bool take_expired(Timer t, Instant now) {
    if (!slot(t) || *slot(t) > now) return false;
    slot(t).reset();
    return true;
  }
  std::optional<Instant> next() const {
    std::optional<Instant> best;
    for (const auto& at : at_) {
      if (at && (!best || *at < *best)) best = at;
    }
    return best;
  }

 private:
  std::optional<Instant>& slot(Timer t) { return at_[static_cast<std::size_t>(t)]; }
  std::array<std::optional<Instant>, static_cast<std::size_t>(Timer::kCount)> at_{};
};

}  // namespace uroce::nic
