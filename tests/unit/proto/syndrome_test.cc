// SPDX-License-Identifier: Apache-2.0
#include "proto/syndrome.h"

#include <gtest/gtest.h>

namespace uroce::proto {
namespace {

TEST(Syndrome, EveryByteHasOneMeaning) {
  std::array<int, 4> counts{};
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Syndrome syndrome = decode_syndrome(static_cast<std::uint8_t>(raw));
    EXPECT_EQ(encode_syndrome(syndrome), raw);
    ++counts[syndrome.index()];
  }
  EXPECT_EQ(counts, (std::array<int, 4>{32, 32, 5, 187}));
}

TEST(Syndrome, Decodes) {
  EXPECT_EQ(decode_syndrome(0x1F), Syndrome{syndrome::Ack{kCreditsUnlimited}});
  EXPECT_EQ(decode_syndrome(0x00), Syndrome{syndrome::Ack{0}});
  EXPECT_EQ(decode_syndrome(0x20), Syndrome{syndrome::Rnr{0}});
  EXPECT_EQ(decode_syndrome(0x3F), Syndrome{syndrome::Rnr{31}});
  EXPECT_EQ(decode_syndrome(0x60), Syndrome{syndrome::Nak{NakCode::kPsnSequenceError}});
  EXPECT_EQ(decode_syndrome(0x61), Syndrome{syndrome::Nak{NakCode::kInvalidRequest}});
  EXPECT_EQ(decode_syndrome(0x62), Syndrome{syndrome::Nak{NakCode::kRemoteAccessError}});
  EXPECT_EQ(decode_syndrome(0x63), Syndrome{syndrome::Nak{NakCode::kRemoteOperationalError}});
  EXPECT_EQ(decode_syndrome(0x64), Syndrome{syndrome::Nak{NakCode::kInvalidRdRequest}});
  for (const std::uint8_t reserved : std::array<std::uint8_t, 8>{0x40, 0x5F, 0x65, 0x7F, 0x80, 0x9F, 0xE0, 0xFF}) {
    EXPECT_EQ(decode_syndrome(reserved), Syndrome{syndrome::Reserved{reserved}});
  }
}

TEST(Syndrome, CreditTableGrows) {
  for (std::size_t i = 1; i < kCredits.size(); ++i) EXPECT_GT(kCredits[i], kCredits[i - 1]);
  EXPECT_EQ(kCredits[30], 32768);
}

}  // namespace
}  // namespace uroce::proto
