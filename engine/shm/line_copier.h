// SPDX-License-Identifier: Apache-2.0
// How packets are copied into a ring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::engine {

/// Copies into cache lines that another processor read last. Through the caches, that processor then finds them in one
/// which both share. Where they share none (two chiplets, two sockets), each line is asked back from it first, and
/// streaming stores, which go to memory, take a fifth of the time. Which it is changes while a program runs: threads
/// move, and so do the processors of a virtual machine. So both ways are timed now and then, and the quicker one is
/// taken until the next time.
class LineCopier {
 public:
  /// `clock` tells the time in any unit.
  using Clock = std::uint64_t (*)();
  explicit LineCopier(Clock clock = cycles) : clock_(clock) {}

  /// Copies to `to`, the beginning of a line.
  void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size);
  /// Whether a packet had better be made where it will be read than be copied there: through the caches, and not while
  /// copies are timed.
  bool prefers_in_place() const { return way_ == kThroughCaches && copies_ % kPeriod >= 2 * kTrial; }
  /// One was. They count, so that trials go on.
  void count_in_place() {
    ++copies_;
    has_streamed_ = false;
  }
  /// Whether the last copy went past the caches.
  bool has_streamed() const { return has_streamed_; }
  /// To be called before other processors are told of the bytes.
  void finish();

 private:
  enum Way : std::uint8_t { kThroughCaches, kPastCaches };
  static std::uint64_t cycles();
  /// Of so many copies, the first are a trial of the other way, and as many after it are timed to compare.
  static constexpr std::uint32_t kPeriod = 1024;
  static constexpr std::uint32_t kTrial = 8;

  Clock clock_;
  Way way_ = kThroughCaches;
  bool has_streamed_ = false;
  bool is_unfinished_ = false;
  std::uint32_t copies_ = 0;
  std::array<double, 2> cost_{};  ///< Of each way, in this trial.
};

}  // namespace uroce::engine
