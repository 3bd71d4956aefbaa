// SPDX-License-Identifier: Apache-2.0
// The inner state of a QP: for people who look into a running NIC.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/clock.h"
#include "proto/psn.h"
#include "verbs/nic/model/types.h"

namespace uroce::nic {

struct QpInside {
  // Requester. UC and UD have only `next` and the queue.
  proto::Psn una;                  ///< The oldest packet that is not acknowledged.
  proto::Psn next;                 ///< The next one to be sent.
  proto::Psn max;                  ///< One past the newest that was sent.
  std::uint32_t queued_sends = 0;  ///< WRs that have not completed ...
  std::uint32_t begun_sends =
      0;  ///< ... and those of them of which packets have been sent since the QP last went back.
  std::uint32_t retries_left = 0, rnr_retries_left = 0;
  bool waits_for_window = false;
  bool probes = false;   ///< After a timeout, until something is acknowledged.
  bool stalled = false;  ///< Silence for so long that the window has taken back what is outstanding.
  // Responder.
  proto::Psn expected;  ///< The next request's.
  std::uint32_t msn = 0;
  std::uint32_t receives = 0;  ///< Posted to the QP's own queue, or to its SRQ.
  bool has_srq = false;
  // The window to the peer, which all QPs to it share. Bytes of receive buffer.
  std::uint64_t window_used = 0, window_limit = 0;
  /// When its timers are due, in the order of timer_names(); Instant{}: not running.
  std::array<Instant, 4> timers{};
};

/// UC and UD have "room" (when to look for it again) and "hold" (what was sent counts against the window until then).
constexpr std::array<const char*, 4> timer_names(QpType type) {
  if (type == QpType::kRc) return {"ack", "rnr", "credit", "stall"};
  return {"", "room", "", "hold"};
}

}  // namespace uroce::nic
