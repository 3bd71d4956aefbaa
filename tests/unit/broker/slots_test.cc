// SPDX-License-Identifier: Apache-2.0
// The kernel steers packets to the slot that their QPN names, whatever becomes of the other slots.
#include "engine/broker/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "engine/port/open_port.h"
#include "tests/support/own_network.h"

namespace uroce::engine {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kLast = kSlots - 1;

/// Wide enough for a BTH.
using Packet = std::array<std::uint8_t, 16>;

struct Family {
  const char* name;
  proto::Gid address;
};
const Family kFamilies[] = {
    {"V4", proto::Gid::from_v4(127, 0, 0, 1)},
    {"V6", proto::Gid{{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}},
};
std::ostream& operator<<(std::ostream& os, const Family& family) { return os << family.name; }

class SlotsTest : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    UROCE_NEEDS_OWN_NETWORK();
    auto sockets = open_slot_sockets(local());
    ASSERT_TRUE(sockets) << sockets.error().sentence;
    sockets_ = std::move(*sockets);
    auto sender = open_send_socket(local(), 0xC001);
    ASSERT_TRUE(sender) << sender.error().sentence;
    sender_ = std::move(*sender);
  }

  static const proto::Gid& local() { return GetParam().address; }

  /// Sends a packet whose DestQP is `qpn`; `size` bytes of it.
  void send(std::uint32_t qpn, std::size_t size = sizeof(Packet)) {
    Packet packet{};
    packet[5] = static_cast<std::uint8_t>(qpn >> 16);
    packet[6] = static_cast<std::uint8_t>(qpn >> 8);
    packet[7] = static_cast<std::uint8_t>(qpn);
    const SocketAddress to(local(), proto::kRocePort);
    ASSERT_EQ(::sendto(sender_.get(), packet.data(), size, 0, to.get(), to.size), static_cast<ssize_t>(size));
  }
  /// The slot whose socket has a packet, which is taken out; nothing when none has.
  std::optional<std::size_t> arrived() {
    Packet packet;
    for (std::size_t slot = 0; slot < sockets_.size(); ++slot) {
      if (!sockets_[slot]) continue;
      if (::recv(sockets_[slot].get(), packet.data(), packet.size(), MSG_DONTWAIT) >= 0) return slot;
    }
    return std::nullopt;
  }
  void revive_all() {
    for (const Fd& socket : sockets_) ASSERT_TRUE(revive_slot(socket.get()));
  }

  std::vector<Fd> sockets_;
  Fd sender_;
};

INSTANTIATE_TEST_SUITE_P(Families, SlotsTest, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(SlotsTest, EveryPacketGoesToTheSlotInItsQpn) {
  revive_all();
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    for (const std::uint32_t local : {0x11u, 0xFFFFu}) {
      send(slot << 16 | local);
      ASSERT_EQ(arrived(), slot);
    }
  }
}

TEST_P(SlotsTest, ManagementAndFragmentsGoToTheFirstSlot) {
  revive_all();
  send(0);
  EXPECT_EQ(arrived(), kManagementSlot);
  send(1);
  EXPECT_EQ(arrived(), kManagementSlot);
  for (const std::size_t size : {0u, 5u}) {
    send(0xFFFFFF, size);
    EXPECT_EQ(arrived(), kManagementSlot);
  }
}

TEST_P(SlotsTest, ASlotBeyondTheLastDoesNoHarm) {
  revive_all();
  send(0xFFFFFF);
  EXPECT_TRUE(arrived());  // Somewhere: every NIC checks the whole QPN.
}

TEST_P(SlotsTest, RetiredSlotsDropWhatArrives) {
  send(3 << 16);
  EXPECT_FALSE(arrived());
  EXPECT_TRUE(is_retired(sockets_[3].get()));
  ASSERT_TRUE(revive_slot(sockets_[3].get()));
  EXPECT_FALSE(is_retired(sockets_[3].get()));
  EXPECT_FALSE(arrived());
  send(3 << 16);
  send(3 << 16);
  EXPECT_EQ(arrived(), 3u);
  ASSERT_TRUE(retire_slot(sockets_[3].get()));
  EXPECT_FALSE(arrived());
}

TEST_P(SlotsTest, ANewUserDoesNotAnswerForThePacketsThatWereDropped) {
  send(3 << 16);
  const ReceiveSocket socket = adopt_receive_socket(Fd(::dup(sockets_[3].get())), local());
  EXPECT_EQ(socket.drops_seen, 1u);
  EXPECT_GT(socket.buffer_bytes, 0u);
}

// What the design rests on: a socket that is closed makes the last one take its number.
TEST_P(SlotsTest, ASocketThatIsClosedEverywhereTakesTheOrderAlong) {
  revive_all();
  const Fd held_elsewhere(::dup(sockets_[2].get()));
  sockets_[2].reset();
  send(kLast << 16);
  EXPECT_EQ(arrived(), kLast) << "somebody still holds slot 2";
  sockets_[1].reset();
  send(1 << 16);
  EXPECT_EQ(arrived(), kLast) << "nobody holds slot 1";
}

TEST_P(SlotsTest, TheAddressIsTakenForOthers) {
  EXPECT_EQ(holder_of(local()), Holder::kSharedByUser);
  const auto port = open_port({&local(), 1}, EngineChoice::kSocket);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().error, EADDRINUSE);
  const auto second = open_slot_sockets(local());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().error, EADDRINUSE);
  send(kLast << 16);  // The refused calls have not changed the order.
  EXPECT_FALSE(arrived());
  revive_all();
  send(kLast << 16);
  EXPECT_EQ(arrived(), kLast);
}

TEST_P(SlotsTest, ANicAloneSharesNothing) {
  sockets_.clear();
  EXPECT_EQ(holder_of(local()), Holder::kNobody);
  const auto port = open_port({&local(), 1}, EngineChoice::kSocket);
  ASSERT_TRUE(port);
  EXPECT_EQ(holder_of(local()), Holder::kOther);
  EXPECT_THAT(open_slot_sockets(local()).error().sentence, HasSubstr("another NIC"));
}

TEST_P(SlotsTest, APortOnASlotReceivesWhatIsForIt) {
  ASSERT_TRUE(revive_slot(sockets_[9].get()));
  std::vector<ReceiveSocket> receivers;
  receivers.push_back(adopt_receive_socket(Fd(::dup(sockets_[9].get())), local()));
  const auto port = open_port_on(std::move(receivers), EngineChoice::kAuto);
  ASSERT_TRUE(port) << port.error().sentence;
  send(9 << 16 | 0x11);
  send(8 << 16 | 0x11);
  struct Count final : DatagramSink {
    void on_datagram(const proto::Datagram&) override { ++packets; }
    int packets = 0;
  } count;
  (*port)->exchange(count, 64);
  EXPECT_EQ(count.packets, 1);
}

}  // namespace
}  // namespace uroce::engine
