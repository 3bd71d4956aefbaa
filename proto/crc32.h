// SPDX-License-Identifier: Apache-2.0
// CRC-32 of IEEE 802.3 (reflected 0x04C11DB7), of which the ICRC is made. Seeds are as zlib's: 0 in front of the first
// byte, then the CRC so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/bytes.h"

namespace uroce::proto {

/// Without its x^32; bit 31 is x^0.
inline constexpr std::uint32_t kCrcPolynomial = 0xEDB88320;

/// CRC of what `seed` stands for and `bytes`.
std::uint32_t crc32(std::uint32_t seed, Bytes bytes);

/// From so many bytes on it can pay to copy them and compute their CRC in one pass.
inline constexpr std::size_t kOnePassLeast = 512;

/// Copies `size` bytes, and returns crc32() of them: of what is in `to` afterwards, whoever may change `from`. The two
/// do not overlap. Large pieces take as long as crc32() alone on processors with AVX-512 and VPCLMULQDQ.
std::uint32_t copy_with_crc32(std::uint32_t seed, std::uint8_t* to, const std::uint8_t* from, std::size_t size);

/// The same with as many of the first bytes as there is a faster way for than one after the other, and returns how
/// many. `crc`, the seed, becomes the CRC. Its instructions may fault: they are in the section uroce_guarded, and a
/// handler may have it return nothing at any of them (verbs/ibverbs/host/guarded_access.h).
std::optional<std::size_t> copy_lines_with_crc32(std::uint32_t& crc, std::uint8_t* to, const std::uint8_t* from,
                                                 std::size_t size);

}  // namespace uroce::proto
