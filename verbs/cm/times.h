// SPDX-License-Identifier: Apache-2.0
// The times of connection management. Codes are exponents, as everywhere in IBTA; like the kernel, 2^(code - 8) ms
// stands for 4.096 us * 2^code.
#pragma once

#include <algorithm>

#include "proto/base/clock.h"

namespace uroce::cm {

inline constexpr std::uint8_t kResponseTimeout = 20;  ///< What our REQ says for both sides: 4.1 s.
inline constexpr std::uint8_t kServiceTimeout = 24;   ///< What our MRA asks for: 66 s.
inline constexpr std::uint8_t kMaxRetries = 15;
inline constexpr std::uint8_t kAckDelay = 15;  ///< What the kernel tells of a NIC in software.
inline constexpr Duration kSidrMemory = std::chrono::seconds(20);
/// How long after the last listener of a service has gone a request may wait for the next one. (perftest sleeps a
/// second.)
inline constexpr Duration kListenerMemory = std::chrono::seconds(3);
/// How long it waits. Less than after what a peer asks again.
inline constexpr Duration kListenerGrace = std::chrono::seconds(1);
/// How long a request waits for a place in the backlog. Less, too, but not by much.
inline constexpr Duration kBacklogGrace = std::chrono::seconds(4);

constexpr Duration time_of(std::uint8_t code) { return std::chrono::milliseconds(1) * (1 << std::max(code - 8, 0)); }

/// What a peer says, within reason: nobody makes us wait for hours, or repeat in a burst.
constexpr Duration peers_time(std::uint8_t code) { return time_of(std::clamp<std::uint8_t>(code, 16, 24)); }

/// How long packets of a connection that is over may still be under way. The ACK timeout may be a peer's.
constexpr Duration timewait(std::uint8_t ack_timeout) { return time_of(std::min<std::uint8_t>(ack_timeout, 24)); }

/// How long a REQ waits for its answer: there and back, and the peer's thinking.
constexpr Duration request_time(std::uint8_t life_time) { return 2 * time_of(life_time) + time_of(kResponseTimeout); }
static_assert(request_time(16) == std::chrono::milliseconds(4608));

/// ACK timeout of a path: its life time twice, and the delay of the NIC. The sum of two powers of two, as a power.
constexpr std::uint8_t ack_timeout(std::uint8_t life_time) {
  const int there_and_back = life_time + 1;
  const int longer = std::max<int>(there_and_back, kAckDelay);
  const int shorter = std::min<int>(there_and_back, kAckDelay);
  return static_cast<std::uint8_t>(std::min(longer + (shorter >= longer - 1 ? 1 : 0), 31));
}
// Measured: without the option (life time 16), and with ACK timeouts of 10, 14, 15, 16 and 21 (life time one less).
static_assert(ack_timeout(16) == 17 && ack_timeout(9) == 15 && ack_timeout(13) == 16 && ack_timeout(14) == 16 &&
              ack_timeout(15) == 17 && ack_timeout(20) == 21);

}  // namespace uroce::cm
