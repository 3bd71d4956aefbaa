// SPDX-License-Identifier: Apache-2.0
// The kernel hands each management packet to the process that it is for.
#include "engine/broker/cm_steering.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>

#include "engine/broker/claims.h"
#include "engine/broker/slots.h"
#include "engine/port/socket_address.h"
#include "tests/support/own_network.h"

namespace uroce::engine {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kService = 0x01061C16;
constexpr std::uint8_t kOurSlot = 5, kNeighbour = 6;
const proto::Gid kShared = proto::Gid::from_v4(127, 0, 0, 77);

class CmSteeringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    UROCE_NEEDS_OWN_NETWORK();
    auto sockets = open_slot_sockets(kShared);
    ASSERT_TRUE(sockets) << sockets.error().sentence;
    sockets_ = std::move(*sockets);
    for (const std::uint8_t slot : {kManagementSlot, kOurSlot, kNeighbour}) ASSERT_TRUE(revive_slot(socket(slot)));
    auto claims = make_claims();
    ASSERT_TRUE(claims);
    claims_ = std::move(*claims);
    sender_ = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }

  int socket(std::uint8_t slot) const { return sockets_[slot].get(); }

  /// Which slot gets a message with this attribute, these IDs' slots, this service, and this upper half of the
  /// transaction ID.
  int who_gets(std::uint16_t attribute, std::uint8_t first_id, std::uint8_t second_id, std::uint32_t service = 0,
               std::uint8_t slot_of_qpn = 0, std::uint32_t tid = 0) {
    std::array<std::uint8_t, 280> packet{};
    packet[5] = slot_of_qpn;
    packet[7] = 1;
    packet[36] = static_cast<std::uint8_t>(attribute >> 8);
    packet[37] = static_cast<std::uint8_t>(attribute);
    packet[44] = first_id;
    packet[48] = second_id;
    for (std::size_t i = 0; i < 4; ++i) packet[28 + i] = static_cast<std::uint8_t>(tid >> (24 - 8 * i));
    for (std::size_t i = 0; i < 4; ++i) packet[56 + i] = static_cast<std::uint8_t>(service >> (24 - 8 * i));
    const SocketAddress to(kShared, proto::kRocePort);
    EXPECT_GT(::sendto(sender_.get(), packet.data(), packet.size(), 0, to.get(), to.size), 0);
    std::array<pollfd, 3> looks{};
    const std::array<std::uint8_t, 3> slots{kManagementSlot, kOurSlot, kNeighbour};
    for (std::size_t i = 0; i < slots.size(); ++i) looks[i] = {.fd = socket(slots[i]), .events = POLLIN, .revents = 0};
    constexpr int kLong = 5000;
    EXPECT_EQ(::poll(looks.data(), looks.size(), kLong), 1);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (looks[i].revents == 0) continue;
      EXPECT_GT(::recv(looks[i].fd, packet.data(), packet.size(), MSG_DONTWAIT), 0);
      return slots[i];
    }
    return -1;
  }

  int steer(std::uint8_t slot) { return steer_management(claims_.get(), slot, socket(slot)); }
  Result<Fd, int> claim_by(std::uint8_t slot, std::uint32_t service) {
    return claim_service(claims_.get(), service, slot, socket(slot));
  }

  std::vector<Fd> sockets_;
  Fd claims_;
  Fd sender_;
};

TEST_F(CmSteeringTest, AnswersGoToTheSlotInTheIdThatTheyAreFor) {
  ASSERT_EQ(steer(kOurSlot), 0);
  for (std::uint16_t attribute = 0x11; attribute <= 0x16; ++attribute) {
    EXPECT_EQ(who_gets(attribute, kOurSlot, kNeighbour), kNeighbour) << attribute;
  }
  EXPECT_EQ(who_gets(0x18, kNeighbour, kOurSlot), kNeighbour) << "SIDR_REP: its request's";
  EXPECT_EQ(who_gets(0x16, kOurSlot, 0), kManagementSlot) << "for nobody";
  EXPECT_EQ(who_gets(0x19, kOurSlot, kNeighbour), kManagementSlot) << "LAP";
  EXPECT_EQ(who_gets(0x10, 0, 0, 0, kNeighbour), kNeighbour) << "no management packet";
}

TEST_F(CmSteeringTest, RequestsGoToWhoListens) {
  const auto claim = claim_by(kNeighbour, kService);
  ASSERT_TRUE(claim);
  ASSERT_EQ(steer(kOurSlot), 0) << "by another process";
  for (const std::uint16_t attribute : {std::uint16_t{0x10}, std::uint16_t{0x17}}) {
    EXPECT_EQ(who_gets(attribute, 9, 9, kService), kNeighbour);
    EXPECT_EQ(who_gets(attribute, 9, 9, kService + 1), kOurSlot) << "it refuses what nobody listens for";
  }
}

// It would take the requests of all others.
TEST_F(CmSteeringTest, WhoCanNotSeeWhoListensDoesNotSteer) {
  const auto claim = claim_by(kNeighbour, kService);
  ASSERT_TRUE(claim);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  const Fd next(::fcntl(sender_.get(), F_DUPFD_CLOEXEC, 0));
  const rlimit few{.rlim_cur = static_cast<rlim_t>(next.get()) + 1, .rlim_max = whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const int error = steer(kOurSlot);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
  EXPECT_EQ(error, EMFILE);
  EXPECT_EQ(who_gets(0x10, 9, 9, kService), kNeighbour);
}

TEST_F(CmSteeringTest, WhoWaitsForOneThatStandsStillIsToldSo) {
  const auto lock = lock_steering(claims_.get());
  ASSERT_TRUE(lock);
  const int error = steer(kOurSlot);
  EXPECT_EQ(error, EAGAIN);
  EXPECT_THAT(steering_failed(kShared, error).sentence, HasSubstr("kill -CONT"));
}

TEST_F(CmSteeringTest, ARequestThatIsTakenBackIsSoWhereItWent) {
  constexpr std::uint16_t kRej = 0x12;
  const auto claim = claim_by(kNeighbour, kService);
  ASSERT_TRUE(claim);
  ASSERT_EQ(steer(kOurSlot), 0) << "by another process";
  EXPECT_EQ(who_gets(kRej, 9, 0, 0, 0, kService), kNeighbour);
  EXPECT_EQ(who_gets(kRej, 9, 0, 0, 0, kService + 1), kOurSlot) << "nobody listens";
  EXPECT_EQ(who_gets(kRej, 9, kOurSlot, 0, 0, kService), kOurSlot) << "it has an ID";
  EXPECT_EQ(who_gets(0x16, 9, 0, 0, 0, kService), kManagementSlot) << "no REJ";
}

// perftest's client asks for the UDP port before its server, which had the TCP port, listens there.
TEST_F(CmSteeringTest, RequestsThatNobodyListensForGoToWhoHasTheSamePortInAnotherSpace) {
  constexpr std::uint32_t kUdp = 0x01111C16;
  const auto claim = claim_by(kNeighbour, kService);
  ASSERT_TRUE(claim);
  ASSERT_EQ(steer(kOurSlot), 0) << "by another process";
  EXPECT_EQ(who_gets(0x17, 9, 9, kUdp), kNeighbour);
  const auto better = claim_by(kOurSlot, kUdp);
  ASSERT_TRUE(better);
  EXPECT_EQ(who_gets(0x17, 9, 9, kUdp), kOurSlot);
  EXPECT_EQ(who_gets(0x10, 9, 9, kService), kNeighbour);
}

TEST_F(CmSteeringTest, OneProcessListensForAService) {
  auto claim = claim_by(kOurSlot, kService);
  ASSERT_TRUE(claim);
  auto again = claim_by(kNeighbour, kService);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), EADDRINUSE);
  *claim = Fd();
  again = claim_by(kNeighbour, kService);
  ASSERT_TRUE(again);
  EXPECT_EQ(who_gets(0x10, 9, 9, kService), kNeighbour);
}

TEST_F(CmSteeringTest, AThousandListeners) {
  std::vector<Fd> claims;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    auto claim = claim_by(i % 2 == 0 ? kOurSlot : kNeighbour, kService + i);
    ASSERT_TRUE(claim) << i;
    claims.push_back(std::move(*claim));
  }
  EXPECT_EQ(who_gets(0x10, 0, 0, kService + 998), kOurSlot);
  EXPECT_EQ(who_gets(0x10, 0, 0, kService + 999), kNeighbour);
}

}  // namespace
}  // namespace uroce::engine
