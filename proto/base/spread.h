// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace uroce {

/// A number for any bytes, the same on every machine (FNV-1a). It spreads, and no more: bytes with a given number are
/// easily found.
template <class Bytes>
constexpr std::uint64_t spread(const Bytes& bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const auto byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3;
  return hash;
}

}  // namespace uroce
