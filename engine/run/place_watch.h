// SPDX-License-Identifier: Apache-2.0
// Tells when the background thread had better run on another processor.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>

#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Some programs run all the time and hardly call: they watch their memory for the peer's WRITEs. Where all processors
/// are busy, the background thread has to interrupt somebody for each packet. Not the program that it works for, which
/// would have to be interrupted by another processor at that (50 us on some virtual machines): packets of a peer on
/// this host come from elsewhere, and on the peer's processor the background thread is woken at once.
class PlaceWatch {
 public:
  /// A thread of the program posts something, on the processor on which it runs.
  void on_post(int processor = ::sched_getcpu()) { program_.store(processor, std::memory_order_relaxed); }

  /// The background thread was woken at `now` on `processor`, for so many packets. Returns whether it should leave that
  /// processor. `program_ran()`: the processor time that the program's thread has had; asked seldom.
  template <class ProgramRan>
  bool is_in_the_way(Instant now, int processor, std::size_t packets, const ProgramRan& program_ran) {
    if (packets == 0) return false;
    if (packets >= kStreamPackets || processor != program_.load(std::memory_order_relaxed)) {
      wakes_ = 0;
      return false;
    }
    if (wakes_++ == 0) {
      since_ = now;
      ran_before_ = program_ran();
      return false;
    }
    if (wakes_ < kWakesInTheWay || now < moved_ + kMovePause) return false;
    wakes_ = 0;
    // A program that sleeps is not disturbed.
    if (program_ran() - ran_before_ < (now - since_) / 2) return false;
    moved_ = now;
    return true;
  }

 private:
  std::atomic<int> program_ = -1;  ///< The processor on which it posted last.
  // The background thread's own:
  int wakes_ = 0;          ///< In a row on the program's processor.
  Instant since_{};        ///< The first of them, ...
  Duration ran_before_{};  ///< ... and how long the program had run by then.
  Instant moved_{};
};

}  // namespace uroce::engine
