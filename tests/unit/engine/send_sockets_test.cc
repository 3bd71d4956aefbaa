// SPDX-License-Identifier: Apache-2.0
#include "engine/port/send_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <sys/resource.h>

#include <array>
#include <utility>

#include "tests/support/own_network.h"

namespace uroce::engine {
namespace {

using testing::ElementsAre;

const proto::Gid kHere = proto::Gid::from_v4(127, 0, 0, 1);

using Ports = std::initializer_list<std::uint16_t>;

class SendSocketsTest : public testing::Test {
 protected:
  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }
};

TEST_F(SendSocketsTest, ProcessesShareTheSourcePortsOfAnAddress) {
  SendSockets one, other;
  EXPECT_EQ(one.acquire(kHere, 0xC001), 0xC001);
  EXPECT_EQ(other.acquire(kHere, 0xC001), 0xC001);
}

TEST_F(SendSocketsTest, TakesANeighbourOfAPortThatIsNotShared) {
  const Fd other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress taken(kHere, 0xC002);
  ASSERT_EQ(::bind(other.get(), taken.get(), taken.size), 0);
  SendSockets sockets;
  EXPECT_EQ(sockets.acquire(kHere, 0xC002), 0xC003);
}

TEST_F(SendSocketsTest, TakesAnyPortWhenAnotherProgramHasAllThatAreNear) {
  std::vector<Fd> others;
  for (std::uint16_t port = 0xC002; port < 0xC002 + 64; ++port) {
    const SocketAddress taken(kHere, port);
    ASSERT_EQ(
        ::bind(others.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)).get(), taken.get(), taken.size), 0);
  }
  SendSockets sockets;
  const std::uint16_t port = sockets.acquire(kHere, 0xC002);
  EXPECT_NE(port, 0);
  EXPECT_FALSE(port >= 0xC002 && port < 0xC002 + 64) << port;
  EXPECT_TRUE(sockets.find_or_open(kHere, port));
  EXPECT_EQ(sockets.open_count(), 1u) << "and packets go from there";
}

TEST_F(SendSocketsTest, OneSocketPerPortWhateverTheNumberOfQps) {
  SendSockets sockets;
  EXPECT_EQ(sockets.acquire(kHere, 0xC001), 0xC001);
  EXPECT_EQ(sockets.acquire(kHere, 0xC001), 0xC001);
  EXPECT_EQ(sockets.open_count(), 1u);
}

TEST_F(SendSocketsTest, SharesWhenFullAndClosesOnlyWhatIsUnused) {
  std::vector<int> changes;
  SendSockets sockets(2, 2);
  sockets.set_on_change([&](SendIndex index, int fd) { changes.push_back(fd < 0 ? -1 : index.value); });
  EXPECT_EQ(sockets.acquire(kHere, 0xC001), 0xC001);
  EXPECT_EQ(sockets.acquire(kHere, 0xC002), 0xC002);
  EXPECT_EQ(sockets.acquire(kHere, 0xC003), 0xC001);
  EXPECT_EQ(sockets.acquire(kHere, 0xC003), 0xC002) << "the one with fewer users";
  EXPECT_FALSE(sockets.find_or_open(kHere, 0xC003).has_value());
  sockets.release(kHere, 0xC002);
  EXPECT_FALSE(sockets.find_or_open(kHere, 0xC003).has_value()) << "still one user";
  sockets.release(kHere, 0xC002);
  sockets[*sockets.find_or_open(kHere, 0xC002)].queued = 1;
  EXPECT_FALSE(sockets.find_or_open(kHere, 0xC003).has_value()) << "still a frame to send";
  sockets[*sockets.find_or_open(kHere, 0xC002)].queued = 0;
  EXPECT_TRUE(sockets.find_or_open(kHere, 0xC003).has_value());
  EXPECT_THAT(changes, ElementsAre(0, 1, -1, 1));
}

TEST_F(SendSocketsTest, LeavesTheProgramMostOfItsDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const auto& [files, share] :
       {std::pair<rlim_t, int>{256, 64}, {3, 1}, {before.rlim_max, SendSockets::kMaxAcquired}}) {
    const rlimit limit{files, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(SendSockets::fair_share(), share);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(SendSocketsTest, HasRoomForPacketsOfNobodyWhoAcquires) {
  SendSockets sockets(2, 3);
  EXPECT_TRUE(sockets.find_or_open(kHere, 0xC001).has_value()) << "as connection management does";
  for (const std::uint16_t port : Ports{0xC002, 0xC003, 0xC004, 0xC005})
    EXPECT_NE(sockets.acquire(kHere, port), 0xC001);
  EXPECT_EQ(sockets.open_count(), 3u);
  for (const std::uint16_t port : Ports{0xC006, 0xC001}) {
    EXPECT_TRUE(sockets.find_or_open(kHere, port).has_value());
    EXPECT_EQ(sockets.open_count(), 3u);
  }
}

TEST_F(SendSocketsTest, AnotherAddressGetsASocketThoughThoseOfTheFirstAreMany) {
  const proto::Gid other = proto::Gid::from_v4(127, 0, 0, 2);
  SendSockets sockets(2, 3);
  for (const std::uint16_t port : Ports{0xC001, 0xC002, 0xC003}) sockets.acquire(kHere, port);
  EXPECT_EQ(sockets.acquire(other, 0xC003), 0xC003);
}

TEST_F(SendSocketsTest, ClosesWhatHasNotSentForLongest) {
  SendSockets sockets(2, 4);
  for (const std::uint16_t port : Ports{0xC001, 0xC002, 0xC003, 0xC004}) sockets.find_or_open(kHere, port);
  sockets.find_or_open(kHere, 0xC001);
  sockets.find_or_open(kHere, 0xC005);
  sockets.set_on_change([](SendIndex, int) { FAIL() << "was open already"; });
  EXPECT_TRUE(sockets.find_or_open(kHere, 0xC001).has_value());
}

TEST_F(SendSocketsTest, KeepsFewSocketsThatNobodyUsesTheLatest) {
  SendSockets sockets;
  const auto port = [](int i) { return static_cast<std::uint16_t>(0xC100 + i); };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sockets.acquire(kHere, port(i)), port(i));
  for (int i = 1; i < 100; ++i) sockets.release(kHere, port(i));
  EXPECT_EQ(sockets.open_count(), 1u + SendSockets::kMaxUnused);
  sockets.set_on_change([](SendIndex, int) { FAIL() << "was open already"; });
  EXPECT_TRUE(sockets.find_or_open(kHere, port(99)).has_value()) << "its last acknowledgements may leave just now";
  EXPECT_EQ(sockets.acquire(kHere, port(0)), port(0));
}

TEST_F(SendSocketsTest, WhatArrivesAtASourcePortFindsNoRoom) {
  const auto ours = open_send_socket(kHere, 0xC001), stranger = open_send_socket(kHere, 0xC002);
  ASSERT_TRUE(ours && stranger);
  const SocketAddress there(kHere, 0xC001);
  const std::array<char, 1000> datagram{};
  for (int i = 0; i < 100; ++i) {
    const ssize_t sent = ::sendto(stranger->get(), datagram.data(), datagram.size(), 0, there.get(), there.size);
    ASSERT_EQ(sent, static_cast<ssize_t>(datagram.size()));
  }
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  ASSERT_EQ(::getsockopt(ours->get(), SOL_SOCKET, SO_MEMINFO, memory.data(), &size), 0);
  EXPECT_LT(memory[SK_MEMINFO_RMEM_ALLOC], 8192u);
  EXPECT_GT(memory[SK_MEMINFO_DROPS], 90u);
}

TEST_F(SendSocketsTest, NoPortOfAnAddressThatIsNotOurs) {
  SendSockets sockets;
  EXPECT_EQ(sockets.acquire(proto::Gid::from_v4(192, 0, 2, 1), 0xC001), 0);
}

}  // namespace
}  // namespace uroce::engine
