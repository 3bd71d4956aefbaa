// SPDX-License-Identifier: Apache-2.0
// Captures of both ends whose clocks are set, or drift, while they are written: one story, as if nothing had been.
#include "tools/explain/packets/clocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;

constexpr std::int64_t kMicro = 1'000, kMsec = 1'000'000, kSec = 1'000'000'000;
constexpr std::size_t kTrain = 16;
constexpr std::size_t kTrains = 150;
constexpr std::size_t kExchanged = 2 * kTrain * kTrains;  ///< More than are compared at the beginning.
constexpr std::size_t kMiddle = kExchanged / 2 + kTrain / 2;

/// Trains of SENDs of A, each a train of answers behind it.
Octets exchange() {
  std::vector<Scripted> packets;
  for (std::uint32_t first = 0; first < kTrain * kTrains; first += kTrain) {
    for (std::uint32_t i = 0; i < kTrain; ++i) packets.push_back({true, O::kRcSendOnly, first + i, 4});
    for (std::uint32_t i = 0; i < kTrain; ++i)
      packets.push_back({false, O::kRcAcknowledge, first + i, 0, aeth(first + i + 1)});
  }
  return scripted_pcap(packets);
}

bool is_answer(std::size_t i) { return i / kTrain % 2 != 0; }
/// When A sees packet `i`: its answers 11 ms after the requests.
std::int64_t time_at_a(std::size_t i) {
  return 100'000 * kSec + static_cast<std::int64_t>(i / (2 * kTrain)) * 20 * kMsec + (is_answer(i) ? 11 * kMsec : 0) +
         static_cast<std::int64_t>(i % kTrain) * 10 * kMicro;
}
/// The ways take 5 ms.
std::int64_t time_at_b(std::size_t i) { return time_at_a(i) + (is_answer(i) ? -5 * kMsec : 5 * kMsec); }

/// `capture` with other times, of a clock that shows `clock(i, time)` at packet `i`.
Octets timed(Octets capture, std::int64_t (*time)(std::size_t),
             const std::function<std::int64_t(std::size_t, std::int64_t)>& clock) {
  constexpr std::size_t kFileHeader = 24, kRecordHeader = 16;
  const bool in_nanoseconds = std::memcmp(capture.data(), "\x4d\x3c\xb2\xa1", 4) == 0;
  std::size_t at = kFileHeader;
  for (std::size_t i = 0; at < capture.size(); ++i) {
    const std::int64_t now = clock(i, time(i));
    std::uint32_t size = 0;
    std::memcpy(&size, &capture.at(at + 8), sizeof size);
    const std::uint32_t words[]{static_cast<std::uint32_t>(now / kSec),
                                static_cast<std::uint32_t>(now % kSec / (in_nanoseconds ? 1 : kMicro))};
    std::memcpy(&capture.at(at), words, sizeof words);
    at += kRecordHeader + size;
  }
  return capture;
}

std::int64_t on_time(std::size_t, std::int64_t time) { return time; }

/// One packet after the other, and each request by A's capture.
void expect_all_is_well(const Retold& retold) {
  EXPECT_EQ(retold.counts(), "");
  ASSERT_EQ(retold.lines.size(), kExchanged);
  std::size_t at_a = 0, arrived = 0;
  for (const Line& line : retold.lines) {
    at_a += line.packet.place.file == 0 ? 1u : 0u;
    arrived += line.packet.fate == Fate::kArrived ? 1u : 0u;
  }
  EXPECT_EQ(at_a, kExchanged);
  EXPECT_EQ(arrived, kExchanged);
}

TEST(Clocks, ThatAreSetWhileTheyAreNeeded) {
  const Octets packets = exchange();
  for (const std::int64_t step : {5 * kSec, -5 * kSec, 50 * kMsec, -300 * kMsec, 3600 * kSec, -3600 * kSec}) {
    SCOPED_TRACE(step);
    const auto steps = [step](std::size_t i, std::int64_t time) { return time + (i >= kMiddle ? step : 0); };
    const Retold at_b = retell_files({timed(packets, time_at_a, on_time), timed(packets, time_at_b, steps)});
    expect_all_is_well(at_b);
    const Retold at_a = retell_files({timed(packets, time_at_a, steps), timed(packets, time_at_b, on_time)});
    expect_all_is_well(at_a);
    for (const Retold* each : {&at_b, &at_a}) {
      const FileFacts& stepped = each->files.at(each == &at_b ? 1 : 0);
      ASSERT_EQ(stepped.set_back.size(), step < 0 ? 1u : 0u);
      if (step < 0) {
        EXPECT_EQ(stepped.set_back.front().frame, kMiddle + 1);
        EXPECT_NEAR(static_cast<double>(stepped.set_back.front().ns), static_cast<double>(step), 20. * kMsec);
      }
    }
    if (step < 0) continue;
    ASSERT_EQ(at_b.files.at(1).clock_steps.size(), 1u);
    ASSERT_EQ(at_a.files.at(1).clock_steps.size(), 1u);
    EXPECT_NEAR(static_cast<double>(at_b.files[1].clock_steps[0].ns), static_cast<double>(step), 1. * kMsec);
    EXPECT_NEAR(static_cast<double>(at_a.files[1].clock_steps[0].ns), static_cast<double>(-step), 1. * kMsec);
  }
}

TEST(Clocks, OfBothEndsThatAreSetBackTogether) {
  const Octets packets = exchange();
  // At a moment between two trains.
  const auto steps = [](std::size_t i, std::int64_t time) { return time - (i >= kExchanged / 2 ? 5 * kSec : 0); };
  expect_all_is_well(retell_files({timed(packets, time_at_a, steps), timed(packets, time_at_b, steps)}));
}

TEST(Clocks, ThatDrift) {
  const Octets packets = exchange();
  for (const std::int64_t ppm : {20, -100, 5000, -5000}) {
    SCOPED_TRACE(ppm);
    const auto drifts = [ppm](std::size_t, std::int64_t time) {
      return time + (time - 100'000 * kSec) / 1'000'000 * ppm;
    };
    const Retold retold = retell_files({timed(packets, time_at_a, on_time), timed(packets, time_at_b, drifts)});
    expect_all_is_well(retold);
    EXPECT_TRUE(retold.files.at(1).clock_steps.empty());
    for (const Line& line : retold.lines) {
      const std::int64_t way = line.packet.other_time_ns - line.packet.time_ns;
      ASSERT_NEAR(static_cast<double>(line.packet.is_response() ? -way : way), 5. * kMsec, 4. * kMsec);
    }
  }
}

/// What arrives late in one direction was held back: no clock jumped.
TEST(Clocks, ThatAreRightWherePacketsAreHeldBack) {
  const Octets packets = exchange();
  const auto late_requests = [](std::size_t i, std::int64_t time) {
    return time + (i >= kExchanged / 2 ? 500 * kMsec : 0);
  };
  const auto late_answers = [](std::size_t i, std::int64_t time) {
    return time + (i >= kExchanged / 2 ? (is_answer(i) ? 500 * kMsec + 1 : 0) : 0);
  };
  const Retold retold =
      retell_files({timed(packets, time_at_a, late_answers), timed(packets, time_at_b, late_requests)});
  for (const FileFacts& file : retold.files) {
    EXPECT_TRUE(file.set_back.empty());
    EXPECT_TRUE(file.clock_steps.empty());
  }
}

/// It takes no sanitizer by surprise.
TEST(Clocks, ThatShowAnything) {
  const Octets packets = exchange();
  std::mt19937_64 random(1);
  const auto anything = [&random](std::size_t i, std::int64_t time) {
    return i % 700 < 650 ? time + static_cast<std::int64_t>(i / 700 * 1'000'003 % 4'000) * 1'000'000 * kSec
                         : static_cast<std::int64_t>(random() % (std::uint64_t{1} << 32)) * kSec;
  };
  for (int i = 0; i < 4; ++i) {
    const Retold retold = retell_files({timed(packets, time_at_a, anything), timed(packets, time_at_b, anything)});
    EXPECT_GE(retold.lines.size(), kExchanged);
  }
}

}  // namespace
}  // namespace uroce::explain::test
