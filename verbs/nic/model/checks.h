// SPDX-License-Identifier: Apache-2.0
// What an RC responder checks.
#pragma once

#include <cstdint>

namespace uroce::nic {

/// In the order of the specification (IBTA Vol 1, 9.7.4.1): the numbers that the event `refused` tells.
enum class RcCheck : std::uint8_t { kPsn, kSequence, kOpcode, kResources, kAccess, kLength, kCount };

}  // namespace uroce::nic
