// SPDX-License-Identifier: Apache-2.0
// How slow this machine is: times that are right on a processor are too short on an emulated one.
#pragma once

#include <algorithm>
#include <atomic>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Measures the machine by what a packet costs, and stretches times by which programs are judged or waited for. One for
/// the process. Any thread may call anything.
class Pace {
 public:
  /// A turn of the crank took so long for each of its packets. The quickest one counts, as the thread may have lost its
  /// processor in the others; but the machine may become slower, too.
  static void on_packets(Duration each) {
    const Duration before = packet_.load(std::memory_order_relaxed);
    const Duration now = std::min(each, before + before / kPaceTurns);
    packet_.store(std::clamp(now, kUsualPacket, kPaceMost * kUsualPacket), std::memory_order_relaxed);
  }
  /// What `time`, of a machine where a packet costs at most kUsualPacket, is on this one.
  static Duration of(Duration time) {
    return time * (packet_.load(std::memory_order_relaxed) / kPaceUnit) / kPaceUnits;
  }
  /// As if nothing had been measured. For tests.
  static void forget() { packet_.store(kUsualPacket, std::memory_order_relaxed); }

 private:
  static constexpr Duration kPaceUnit = kUsualPacket / 16;
  static constexpr int kPaceUnits = 16;

  static inline std::atomic<Duration> packet_{kUsualPacket};
};

}  // namespace uroce::engine
