// SPDX-License-Identifier: Apache-2.0
// Replaces, at link time, the three places where the engine meets the operating system: opening a port, the clock and
// the background thread. NICs then talk to each other inside the process, time stands still unless told otherwise, and
// only a poll makes progress: the same calls always do the same.
#pragma once

#include <cstdint>

#include "proto/base/clock.h"

namespace uroce::fuzz {

/// Starts anew: time, losses.
void reset_fake_engine();
void advance_time(Duration by);
/// The network loses the next packets.
void lose_packets(std::uint32_t count);

}  // namespace uroce::fuzz
