// SPDX-License-Identifier: Apache-2.0
// What an RC responder checks, and why memory is refused.
#pragma once

#include <cstdint>

namespace uroce::nic {

/// In the order of the specification (IBTA Vol 1, 9.7.4.1): the numbers that the event `refused` tells.
enum class RcCheck : std::uint8_t { kPsn, kSequence, kOpcode, kResources, kAccess, kLength, kCount };

/// The numbers that the events `rkey_refused` and `lkey_refused` tell.
enum class AccessError : std::uint8_t { kBadKey, kWrongPd, kOutOfBounds, kNoRight };

struct RefusedKey {
  AccessError why{};
  std::uint32_t key = 0;
};

}  // namespace uroce::nic
