// SPDX-License-Identifier: Apache-2.0
// A memory window on the region that an end lends to its peer, as both of them know it (IBTA Vol 1, 10.6.7). It is
// bound anew only while the peer has nothing under way that names it, so what each use must come to is always known.
#pragma once

#include "tests/judged/sim/memory.h"
#include "verbs/nic/resources/mr_table.h"

namespace uroce::simulator {

struct Window {
  enum class State : std::uint8_t {
    kNone,      ///< Names nothing.
    kChanging,  ///< A bind or an invalidation is under way.
    kBound,
  };
  nic::Mw* mw = nullptr;
  State state = State::kNone;
  std::uint32_t key = 0;        ///< From the last bind.
  std::uint32_t stale_key = 0;  ///< A former one; 0: none.
  Extent covers;                ///< In its host's memory.
  std::uint32_t access = 0;
  bool zero_based = false;

  bool usable() const { return state == State::kBound; }
  /// While a bind is under way, the former key may still be good.
  bool has_stale_key() const { return stale_key != 0 && stale_key != key && state != State::kChanging; }
};

}  // namespace uroce::simulator
