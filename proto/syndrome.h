// SPDX-License-Identifier: Apache-2.0
// AETH syndrome (IBTA Vol 1, 9.7.5.1, table "AETH Syndrome Field") as a sum type:
//
//     bit 7   6:5   4:0
//       0     00    credit count code   Ack
//       0     01    timer code          Rnr    (timing.h: rnr_delay)
//       0     11    NAK code            Nak
//     everything else                   Reserved
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "proto/base/check.h"

namespace uroce::proto {

/// Why a responder refuses a request.
enum class NakCode : std::uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};

/// "PSN sequence error", ...
constexpr std::string_view to_string(NakCode code) {
  constexpr std::array<std::string_view, 5> kNames{"PSN sequence error", "invalid request", "remote access error",
                                                   "remote operational error", "invalid RD request"};
  return kNames[static_cast<std::size_t>(code)];
}

/// Credit code of a responder without end-to-end credits.
inline constexpr std::uint8_t kCreditsUnlimited = 31;

/// Receive WQEs that credit codes 0..30 announce (IBTA Vol 1, 9.7.7.2, table "End-to-End Flow Control Credit
/// Encoding").
inline constexpr std::array<std::uint16_t, 31> kCredits{
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The code that announces as many of `receives` posted receive WQEs as a code can, never more.
constexpr std::uint8_t credit_code(std::uint32_t receives) {
  std::uint8_t code = 0;
  for (std::uint8_t step = 16; step != 0; step = static_cast<std::uint8_t>(step / 2)) {
    const auto next = static_cast<std::uint8_t>(code + step);
    if (next < kCredits.size() && kCredits[next] <= receives) code = next;
  }
  return code;
}
static_assert([] {
  for (std::uint8_t code = 0; code < kCredits.size(); ++code) {
    if (credit_code(kCredits[code]) != code) return false;
    if (code > 0 && credit_code(kCredits[code] - 1u) != code - 1) return false;
  }
  return credit_code(0) == 0 && credit_code(0xFFFFFFFF) == 30;
}());

namespace syndrome {
/// Positive acknowledgement.
struct Ack {
  std::uint8_t credit_code = kCreditsUnlimited;  ///< 0..31.
  friend constexpr bool operator==(const Ack&, const Ack&) = default;
};
/// Receiver not ready: try again after the delay that the timer code stands for.
struct Rnr {
  std::uint8_t timer = 0;  ///< 0..31.
  friend constexpr bool operator==(const Rnr&, const Rnr&) = default;
};
/// Negative acknowledgement.
struct Nak {
  NakCode code = NakCode::kPsnSequenceError;
  friend constexpr bool operator==(const Nak&, const Nak&) = default;
};
/// Any other byte. The requester ignores such a response.
struct Reserved {
  std::uint8_t raw = 0x40;
  friend constexpr bool operator==(const Reserved&, const Reserved&) = default;
};
}  // namespace syndrome

using Syndrome = std::variant<syndrome::Ack, syndrome::Rnr, syndrome::Nak, syndrome::Reserved>;

/// Total: every byte has exactly one meaning.
constexpr Syndrome decode_syndrome(std::uint8_t raw) {
  const auto low = static_cast<std::uint8_t>(raw & 0x1F);
  switch (raw >> 5) {
    case 0b000:
      return syndrome::Ack{low};
    case 0b001:
      return syndrome::Rnr{low};
    case 0b011:
      if (low <= static_cast<std::uint8_t>(NakCode::kInvalidRdRequest)) return syndrome::Nak{NakCode{low}};
      break;
    default:
      break;
  }
  return syndrome::Reserved{raw};
}

/// Inverse of decode_syndrome(). Credit and timer codes must be 0..31.
constexpr std::uint8_t encode_syndrome(const Syndrome& value) {
  switch (value.index()) {
    case 0:
      UROCE_ASSERT(std::get<0>(value).credit_code <= 31);
      return std::get<0>(value).credit_code;
    case 1:
      UROCE_ASSERT(std::get<1>(value).timer <= 31);
      return static_cast<std::uint8_t>(0x20 | std::get<1>(value).timer);
    case 2:
      return static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(std::get<2>(value).code));
    default:
      return std::get<3>(value).raw;
  }
}

static_assert([] {
  for (unsigned raw = 0; raw < 256; ++raw) {
    if (encode_syndrome(decode_syndrome(static_cast<std::uint8_t>(raw))) != raw) return false;
  }
  return true;
}());
static_assert(encode_syndrome(syndrome::Ack{}) == 0x1F);
static_assert(encode_syndrome(syndrome::Nak{NakCode::kRemoteAccessError}) == 0x62);
static_assert(decode_syndrome(0x3A) == Syndrome{syndrome::Rnr{26}});
static_assert(decode_syndrome(0x65) == Syndrome{syndrome::Reserved{0x65}});

}  // namespace uroce::proto
