// SPDX-License-Identifier: Apache-2.0
// The ports of RDMA CM by themselves. The numbers are those of Linux 6.12, measured.
#include "verbs/rdmacm/ports.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::rdmacm {
namespace {

constexpr std::uint16_t kTcp = 0x0106, kUdp = 0x0111;
const proto::Gid kHere = proto::Gid::from_v4(192, 0, 2, 1), kThere = proto::Gid::from_v4(192, 0, 2, 2);

class PortsTest : public ::testing::Test {
 protected:
  static Binding make(SocketAddress address, std::uint16_t port, std::uint16_t space = kTcp) {
    address.port = port;
    return {.space = space, .address = address, .only_family = address.family == AF_INET};
  }
  static Binding exact(std::uint16_t port, std::uint16_t space = kTcp) {
    return make(socket_address(kHere, 0), port, space);
  }

  PortTable ports_{{}};
};

TEST_F(PortsTest, AnAddressHasAPortOnce) {
  Binding first = exact(7102), again = exact(7102), elsewhere = make(socket_address(kThere, 0), 7102);
  EXPECT_EQ(ports_.bind(first), 0);
  EXPECT_EQ(ports_.bind(again), EADDRINUSE);
  EXPECT_EQ(ports_.bind(elsewhere), 0);
  ports_.release(first);
  EXPECT_EQ(ports_.bind(again), 0);
}

TEST_F(PortsTest, AWildcardIsInTheWayOfEverything) {
  Binding first = exact(7102), any = make(any_address(AF_INET), 7102), any6 = make(any_address(AF_INET6), 7102);
  ASSERT_EQ(ports_.bind(first), 0);
  EXPECT_EQ(ports_.bind(any), EADDRNOTAVAIL);
  EXPECT_EQ(ports_.bind(any6), EADDRNOTAVAIL);
  ports_.release(first);
  ASSERT_EQ(ports_.bind(any), 0);
  EXPECT_EQ(ports_.bind(first), EADDRNOTAVAIL);
  EXPECT_EQ(ports_.bind(any6), EADDRNOTAVAIL);
  any6.only_family = true;
  EXPECT_EQ(ports_.bind(any6), 0);
}

TEST_F(PortsTest, EachProtocolHasItsOwn) {
  Binding tcp = exact(7102), udp = exact(7102, kUdp);
  EXPECT_EQ(ports_.bind(tcp), 0);
  EXPECT_EQ(ports_.bind(udp), 0);
}

TEST_F(PortsTest, OfTwoThatReuseAPortOneMayListenWhenItIsAlone) {
  Binding x = exact(7103), y = exact(7103);
  x.reuse = y.reuse = true;
  ASSERT_EQ(ports_.bind(x), 0);
  ASSERT_EQ(ports_.bind(y), 0);
  EXPECT_EQ(ports_.listen(x), EADDRINUSE);
  EXPECT_EQ(ports_.listen(y), EADDRINUSE);
  ports_.release(x);
  EXPECT_EQ(ports_.listen(y), 0);
  EXPECT_FALSE(y.reuse);
  EXPECT_EQ(ports_.bind(x), EADDRINUSE);
}

TEST_F(PortsTest, PrivilegedPortsAreRefused) {
  Binding web = exact(80);
  EXPECT_EQ(ports_.bind(web), EACCES);
}

TEST_F(PortsTest, EphemeralPortsAreFreeOnesUntilThereAreNone) {
  PortTable few({.first_ephemeral = 40000, .last_ephemeral = 40009});
  std::vector<Binding> all(10, exact(0));
  Binding taken = exact(40003);
  ASSERT_EQ(few.bind(taken), 0);
  for (int i = 0; i < 9; ++i) {
    Binding& one = all[static_cast<std::size_t>(i)];
    ASSERT_EQ(few.bind(one), 0) << i;
    EXPECT_GE(one.address.port, 40000);
    EXPECT_LE(one.address.port, 40009);
    EXPECT_NE(one.address.port, 40003);
  }
  EXPECT_EQ(few.bind(all[9]), EADDRNOTAVAIL);
  few.release(all[4]);
  few.release(all[5]);
  EXPECT_EQ(few.bind(all[9]), 0);
  EXPECT_EQ(few.size(), 9u);
}

}  // namespace
}  // namespace uroce::rdmacm
