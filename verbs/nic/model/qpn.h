// SPDX-License-Identifier: Apache-2.0
// What a QPN consists of: a slot, 0 where the NIC shares no address (ADR 9), and a number of its own in that.
#pragma once

#include <cstdint>

namespace uroce::nic {

inline constexpr std::uint32_t kLocalQpnBits = 16;

constexpr std::uint32_t slot_of(std::uint32_t qpn) { return qpn >> kLocalQpnBits; }

}  // namespace uroce::nic
