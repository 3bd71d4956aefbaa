// SPDX-License-Identifier: Apache-2.0
// What a program that watches its memory may react to.
#pragma once

#include <cstdint>

#include "engine/run/tunables.h"

namespace uroce::engine {

/// What peers have written to the program's memory since this was made, with no completion to tell of it. Always
/// nothing for a NIC that does not count that (silent_writes()). With the NIC's lock held.
template <class N>
class SilentWrites {
 public:
  explicit SilentWrites(const N& nic) : nic_(nic), before_(total()) {}
  std::uint64_t count() const { return total() - before_; }
  /// Not a stream of them.
  bool are_few() const { return count() > 0 && count() <= kFewWrites; }

 private:
  std::uint64_t total() const {
    if constexpr (requires { nic_.silent_writes(); }) return nic_.silent_writes();
    return 0;
  }
  const N& nic_;
  const std::uint64_t before_;
};

}  // namespace uroce::engine
