// SPDX-License-Identifier: Apache-2.0
// Times that are right on a processor are too short where another one translates its instructions (QEMU without KVM).
#pragma once

#include <atomic>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Stretches times by which programs are judged or waited for on processors that are emulated, where everything takes
/// longer. One for the process; measured when the library is loaded. Any thread may call anything.
class Pace {
 public:
  /// What `time`, of a processor that is not emulated, is on this one.
  static Duration of(Duration time) { return time * factor_.load(std::memory_order_relaxed); }

  /// To load some words from the cache took so long. Where it has not been said, times are not stretched.
  static void on_loads(Duration took) {
    factor_.store(took > kUsualLoads ? kEmulatedPace : 1, std::memory_order_relaxed);
  }
  /// How long that takes.
  static Duration measure_loads();

 private:
  static std::atomic<int> factor_;
};

}  // namespace uroce::engine
