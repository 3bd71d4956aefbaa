// SPDX-License-Identifier: Apache-2.0
// The history of one 64-bit word that many QPs change with atomics. The operands are drawn so that no value comes
// twice: every value is the result of at most one operation and the original of at most one that changed it, so the
// history is a chain, and what fits no chain was lost, done twice, or torn.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/base/clock.h"

namespace uroce::simulator {

struct AtomicOp {
  std::uint64_t id = 0;     ///< wr_id, for messages.
  std::uint64_t group = 0;  ///< The operations of one group are executed in order.
  bool is_swap = false;
  std::uint64_t compare = 0;  ///< For a compare and swap.
  std::uint64_t operand = 0;  ///< What is added, or swapped in.
  std::uint64_t original = 0;
  Instant posted{}, completed{};

  /// What the word holds after this operation found `value`.
  std::uint64_t result(std::uint64_t value) const {
    return is_swap ? (value == compare ? operand : value) : value + operand;
  }
};

class AtomicWord {
 public:
  explicit AtomicWord(std::uint64_t initial) : initial_(initial), latest_(initial) {}

  /// An operation has succeeded with this original.
  void succeeded(const AtomicOp& op) {
    known_.push_back(op);
    latest_ = op.result(op.original);
  }
  /// An operation failed or was flushed: it was executed once or not at all.
  void unknown(const AtomicOp& op) { unknown_.push_back(op); }
  /// A value that the word had not long ago: what to compare with.
  std::uint64_t latest() const { return latest_; }

  /// Judges the history, now that the word holds `final` and nothing is under way: each operation was executed once,
  /// and in an order that agrees with when they were posted and completed (linearizable).
  void check(std::uint64_t final) const;

 private:
  std::uint64_t initial_, latest_;
  std::vector<AtomicOp> known_, unknown_;
};

}  // namespace uroce::simulator
