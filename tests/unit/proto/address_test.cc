// SPDX-License-Identifier: Apache-2.0
#include "proto/address.h"

#include <gtest/gtest.h>

namespace uroce::proto {
namespace {

TEST(Address, RoundTrips) {
  for (const char* text : {"127.0.0.2", "10.77.0.11", "0.0.0.0", "255.255.255.255", "fd77::11", "::1",
                           "::", "fe80::5054:ff:fe12:3456", "2001:db8:1:2:3:4:5:6"}) {
    const auto gid = parse_gid(text);
    ASSERT_TRUE(gid) << text;
    EXPECT_EQ(to_string(*gid), text);
  }
}

TEST(Address, Ipv4IsMapped) {
  EXPECT_EQ(parse_gid("127.0.0.2"), Gid::from_v4(127, 0, 0, 2));
  EXPECT_EQ(parse_gid("::ffff:127.0.0.2"), Gid::from_v4(127, 0, 0, 2));
  EXPECT_FALSE(parse_gid("::")->is_v4());
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const std::string_view text : {"", " ", "127.0.0", "127.0.0.256", "127.0.0.1 ", " 127.0.0.1", "localhost",
                                      "fd77:::1", "fe80::1%lo", "::1/128", "1:2:3:4:5:6:7:8:9"}) {
    EXPECT_FALSE(parse_gid(text)) << text;
  }
  EXPECT_FALSE(parse_gid(std::string_view("127.0.0.1\0x", 11)));
  EXPECT_FALSE(parse_gid(std::string(10'000, '1')));
}

TEST(Address, TheWildcardsAreNoAddress) {
  for (const char* text : {"0.0.0.0", "::"}) EXPECT_TRUE(parse_gid(text)->is_any()) << text;
  for (const char* text : {"0.0.0.1", "::1", "127.0.0.1"}) EXPECT_FALSE(parse_gid(text)->is_any()) << text;
  EXPECT_FALSE(parse_gid("0.0.0.0")->is_zero());
}

TEST(Address, ParsesWithoutTerminator) {
  EXPECT_EQ(parse_gid(std::string_view("10.0.0.12345", 8)), parse_gid("10.0.0.1"));
}

}  // namespace
}  // namespace uroce::proto
