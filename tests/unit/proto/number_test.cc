// SPDX-License-Identifier: Apache-2.0
#include "proto/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace uroce {
namespace {

TEST(Number, IsAllOfTheText) {
  EXPECT_EQ(parse_number<std::uint32_t>("17"), 17u);
  EXPECT_EQ(parse_number<std::uint32_t>("017"), 17u);
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<std::uint32_t>("ff", 16), 255u);
  for (const char* text : {"", " 17", "17 ", "+17", "-17", "17x", "0x11", "1.5"}) {
    EXPECT_EQ(parse_number<std::uint32_t>(text), std::nullopt) << text;
  }
}

TEST(Number, HasToFit) {
  EXPECT_EQ(parse_number<std::uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551616"), std::nullopt);
}

TEST(Number, MayBeHexadecimal) {
  EXPECT_EQ(parse_decimal_or_hex<std::uint32_t>("17"), 17u);
  EXPECT_EQ(parse_decimal_or_hex<std::uint32_t>("0x11"), 17u);
  EXPECT_EQ(parse_decimal_or_hex<std::uint32_t>("0XfF"), 255u);
  for (const char* text : {"0x", "0x0x1", "0x-1", "ff", "0x1g"}) {
    EXPECT_EQ(parse_decimal_or_hex<std::uint32_t>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace uroce
