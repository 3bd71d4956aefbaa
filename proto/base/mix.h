// SPDX-License-Identifier: Apache-2.0
// Scrambling of numbers, the same on every machine. Not for cryptography.
#pragma once

#include <cstdint>

namespace uroce {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): one to one, and every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace uroce
