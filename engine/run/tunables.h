// The numbers by which the engine is tuned, with their units and reasons: how much is done at once, and who waits for
// how long. The transport's are in verbs/nic/model/tunables.h.
#pragma once

#include <cstdint>

#include "proto/base/clock.h"

namespace uroce::engine {

/// Packets sent before the next look at what has arrived, and the other way round: neither direction, and no thread
/// that waits for the NIC, has to wait for long.
inline constexpr std::size_t kCrankBurst = 64;

/// What makes a row of polls: so many, none of them later than so long after the one before.
struct PollDemand {
  std::uint32_t row;
  Duration gap_max;
};
/// A thread that has polled like this is trusted with the network ...
inline constexpr PollDemand kUsualRow{8, std::chrono::microseconds(100)};
/// ... for so long after each poll.
inline constexpr Duration kPollerTrust = std::chrono::milliseconds(1);
/// Where a trusted poller did not come again although packets waited, far more is asked ...
inline constexpr PollDemand kStrictRow{512, std::chrono::microseconds(10)};
/// ... for so long.
inline constexpr Duration kStrictFor = std::chrono::milliseconds(200);

/// So many packets in one go are a stream. A message of 64 KiB is; a request and its answer are not.
inline constexpr std::size_t kStreamPackets = 8;
/// In a stream, the background thread looks for more for so long before it sleeps.
inline constexpr Duration kStreamLinger = std::chrono::microseconds(50);

}  // namespace uroce::engine
