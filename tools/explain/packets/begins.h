// SPDX-License-Identifier: Apache-2.0
// A capture does not say when it began, and what passed before that was not lost.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

/// The taps that were there before their first packet, of those that these packets (by one clock) come from: all that
/// others have of the time before was sent again later, as if it had been lost. An answer is not sent again: its end
/// was at work, and its capture has nothing of that.
std::set<std::uint32_t> taps_on_time(const std::vector<Packet>& packets);

}  // namespace uroce::explain
