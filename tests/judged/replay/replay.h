// SPDX-License-Identifier: Apache-2.0
// Behaviour against behaviour: our NIC takes the place of one endpoint of a capture of two Soft-RoCE endpoints. It is
// given the same verbs and, at their times, the packets that the endpoint received, and what it sends and completes is
// compared with what rxe sent and completed.
//
// Our NIC answers at once, rxe when it gets a processor. So the capture is walked event by event, and what counts is
// the time since the event before: a packet of the peer arrives as long after it as it did in the lab, and our packet
// may come earlier or later by kLag. Timers run in between, in virtual time.
#pragma once

#include "proto/base/clock.h"
#include "tests/judged/replay/difference.h"
#include "tests/judged/replay/script.h"

namespace uroce::replay {

/// What rxe's packets are late by: up to 27 ms behind a timer in the lab's emulated processors, or early by a tick of
/// its clock.
inline constexpr Duration kLag = std::chrono::milliseconds{40};

struct Replay {
  Differences differences;
  std::size_t fed = 0;       ///< Packets of the peer.
  std::size_t compared = 0;  ///< Packets of rxe with one of ours beside it.
};

/// Throws NotOffered when the script wants what our NIC does not have.
Replay replay(const std::string& topic, Side side);

}  // namespace uroce::replay
