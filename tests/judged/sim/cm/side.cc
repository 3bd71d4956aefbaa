// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/cm/side.h"

#include <fmt/core.h>

#include <algorithm>

#include "proto/bytes.h"
#include "tests/judged/sim/cm/process.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {
namespace {

constexpr std::size_t kWritten = 24;  // Less than any field has.

std::uint8_t pattern(std::size_t attempt, bool passive, std::size_t i) {
  return static_cast<std::uint8_t>(attempt * 7 + i * 13 + (passive ? 128 : 1));
}

}  // namespace

std::string CmSide::name() const {
  constexpr const char* kSteps[] = {"has asked", "has the reply", "has the request", "has accepted",
                                    "is up",     "is leaving",    "is over",         "is destroyed"};
  return fmt::format("attempt {}, {} 0x{:08x} of {}, which {}", attempt.number, passive ? "server" : "client", id,
                     process.name(), kSteps[static_cast<int>(step)]);
}

cm::PrivateData write_private_data(const CmWords& words, bool passive) {
  cm::PrivateData out;
  out.size = kWritten;
  store_be<4>(out.bytes.data(), words.attempt);
  store_be<4>(out.bytes.data() + 4, words.request);
  for (std::size_t i = 8; i < kWritten; ++i) out.bytes[i] = pattern(words.attempt, passive, i);
  return out;
}

CmWords read_private_data(const cm::PrivateData& in, bool from_passive, std::size_t field) {
  const CmWords words{load_be<4>(in.bytes.data()), load_be<4>(in.bytes.data() + 4)};
  if (in.size != field) incorrect("private data of {} bytes, the field has {}", in.size, field);
  for (std::size_t i = 8; i < in.bytes.size(); ++i) {
    const std::uint8_t expected = i < kWritten ? pattern(words.attempt, from_passive, i) : std::uint8_t{0};
    if (in.bytes[i] != expected) incorrect("byte {} of private data is {}, should be {}", i, in.bytes[i], expected);
  }
  return words;
}

}  // namespace uroce::simulator
