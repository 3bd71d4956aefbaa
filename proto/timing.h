// SPDX-License-Identifier: Apache-2.0
// Codes on the wire and in QP attributes that stand for a time or a size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "proto/base/check.h"
#include "proto/base/clock.h"

namespace uroce::proto {

namespace detail {
/// In units of 10 microseconds: 0.01 ms .. 491.52 ms, and 655.36 ms for code 0.
inline constexpr std::array<std::uint32_t, 32> kRnrTable{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
}  // namespace detail

/// How long an RNR NAK with timer code 0..31 asks the requester to wait at least (IBTA Vol 1, 9.7.5.2.8, table
/// "Encoding for RNR NAK Timer Field").
constexpr Duration rnr_delay(std::uint8_t timer) {
  UROCE_ASSERT(timer < detail::kRnrTable.size());
  return std::chrono::microseconds{10} * detail::kRnrTable[timer];
}

static_assert([] {
  for (std::uint8_t t = 2; t < 32; ++t) {
    if (rnr_delay(t) <= rnr_delay(static_cast<std::uint8_t>(t - 1))) return false;
    // From code 5 on every second entry doubles.
    if (t >= 5 && rnr_delay(t) != 2 * rnr_delay(static_cast<std::uint8_t>(t - 2))) return false;
  }
  return rnr_delay(0) > rnr_delay(31);
}());
static_assert(rnr_delay(0) == std::chrono::microseconds{655'360});
static_assert(rnr_delay(1) == std::chrono::microseconds{10});
static_assert(rnr_delay(25) == std::chrono::microseconds{61'440});
static_assert(rnr_delay(31) == std::chrono::microseconds{491'520});

/// Local ACK timeout of a QP: 4.096 us * 2^n for n in 1..31; nothing (never times out) for 0 (IBTA Vol 1, 9.7.6.1.3).
constexpr std::optional<Duration> local_ack_timeout(std::uint8_t n) {
  UROCE_ASSERT(n < 32);
  if (n == 0) return std::nullopt;
  return Duration{std::int64_t{4096} << n};
}
static_assert(!local_ack_timeout(0) && *local_ack_timeout(14) == Duration{67'108'864});

/// Path MTU as the enum of the verbs: 1..5 for 256, 512, 1024, 2048, 4096 bytes of payload.
inline constexpr std::uint8_t kMtuCodeMin = 1;
inline constexpr std::uint8_t kMtuCodeMax = 5;
constexpr bool is_mtu_code(std::uint8_t code) { return code >= kMtuCodeMin && code <= kMtuCodeMax; }
constexpr std::uint32_t mtu_bytes(std::uint8_t code) {
  UROCE_ASSERT(is_mtu_code(code));
  return 128u << code;
}
/// Code of an MTU in bytes; nothing when `bytes` is not one of the five.
constexpr std::optional<std::uint8_t> mtu_code(std::uint32_t bytes) {
  for (std::uint8_t code = kMtuCodeMin; code <= kMtuCodeMax; ++code) {
    if (mtu_bytes(code) == bytes) return code;
  }
  return std::nullopt;
}
static_assert(mtu_bytes(1) == 256 && mtu_bytes(5) == 4096 && mtu_code(1024) == 3 && !mtu_code(1500));

}  // namespace uroce::proto
