// SPDX-License-Identifier: Apache-2.0
// Partition keys. We have one, the default (IBTA Vol 1, 10.9).
#pragma once

#include <cstdint>

namespace uroce::proto {

inline constexpr std::uint16_t kDefaultPkey = 0xFFFF;

/// The receiver compares the low 15 bits with its table, in which we have only the default key (IBTA Vol 1, 10.9.3).
constexpr bool accepts_pkey(std::uint16_t pkey) { return (pkey & 0x7FFF) == (kDefaultPkey & 0x7FFF); }

}  // namespace uroce::proto
