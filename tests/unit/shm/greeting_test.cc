// SPDX-License-Identifier: Apache-2.0
// Which names of links another process may say.
#include "engine/shm/greeting.h"

#include <gtest/gtest.h>

#include "proto/address.h"

namespace uroce::engine {
namespace {

bool can_send(const char* source, const char* destination) {
  return is_possible(
      {.source = proto::parse_gid(source).value(), .destination = proto::parse_gid(destination).value()});
}

TEST(LinkNameTest, PacketsGoBetweenAddressesOfNics) {
  EXPECT_TRUE(can_send("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(can_send("127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(can_send("10.1.2.3", "192.168.0.255"));
  EXPECT_TRUE(can_send("::1", "::1"));
  EXPECT_TRUE(can_send("2001:db8::1", "fd00::2"));
}

TEST(LinkNameTest, BothAreOfOneIpVersion) {
  EXPECT_FALSE(can_send("::1", "127.0.0.1"));
  EXPECT_FALSE(can_send("127.0.0.1", "2001:db8::1"));
}

TEST(LinkNameTest, NeitherIsAnAddressThatNoNicHas) {
  for (const char* const other : {"0.0.0.0", "224.0.0.1", "239.255.255.255", "255.255.255.255"}) {
    EXPECT_FALSE(can_send(other, "127.0.0.1")) << other;
    EXPECT_FALSE(can_send("127.0.0.1", other)) << other;
  }
  for (const char* const other : {"::", "ff02::1", "fe80::1", "febf::1"}) {
    EXPECT_FALSE(can_send(other, "2001:db8::1")) << other;
    EXPECT_FALSE(can_send("2001:db8::1", other)) << other;
  }
}

}  // namespace
}  // namespace uroce::engine
