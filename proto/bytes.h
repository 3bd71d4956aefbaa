// SPDX-License-Identifier: Apache-2.0
// Byte spans and big-endian loads and stores.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace uroce {

using Bytes = std::span<const std::uint8_t>;
using MutBytes = std::span<std::uint8_t>;

static_assert(std::endian::native == std::endian::little, "uroce supports little-endian hosts");

/// Loads N <= 8 bytes at `p`, most significant first. The loop is the definition; the other path is
/// the same value in one load and one bswap (gcc 12 does not find that by itself).
template <std::size_t N>
constexpr std::uint64_t load_be(const std::uint8_t* p) {
  static_assert(N >= 1 && N <= 8);
  if (!std::is_constant_evaluated()) {
    if constexpr (N == 2) {
      std::uint16_t v;
      std::memcpy(&v, p, N);
      return __builtin_bswap16(v);
    } else if constexpr (N == 4) {
      std::uint32_t v;
      std::memcpy(&v, p, N);
      return __builtin_bswap32(v);
    } else if constexpr (N == 8) {
      std::uint64_t v;
      std::memcpy(&v, p, N);
      return __builtin_bswap64(v);
    }
  }
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < N; ++i) v = (v << 8) | p[i];
  return v;
}

/// Stores the low N <= 8 bytes of `value` at `p`, most significant first.
template <std::size_t N>
constexpr void store_be(std::uint8_t* p, std::uint64_t value) {
  static_assert(N >= 1 && N <= 8);
  for (std::size_t i = N; i-- > 0; value >>= 8) p[i] = static_cast<std::uint8_t>(value);
}

}  // namespace uroce
