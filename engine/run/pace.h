// SPDX-License-Identifier: Apache-2.0
// Times that are right on a processor are too short where another one translates its instructions (QEMU without KVM).
#pragma once

#include <atomic>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Stretches times by which programs are judged or waited for on processors that QEMU emulates, where everything takes
/// longer. One for the process. Any thread may call anything.
class Pace {
 public:
  /// What `time`, of a processor that is not emulated, is on this one.
  static Duration of(Duration time) { return time * factor_.load(std::memory_order_relaxed); }

  /// Whether this processor says that QEMU emulates it. Others than x86 do not say.
  static bool is_emulated();
  /// As if that were so, or not. For tests.
  static void assume_emulated(bool emulated) { factor_.store(emulated ? kEmulatedPace : 1, std::memory_order_relaxed); }

 private:
  static std::atomic<int> factor_;
};

}  // namespace uroce::engine
