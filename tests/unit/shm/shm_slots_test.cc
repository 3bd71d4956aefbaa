// SPDX-License-Identifier: Apache-2.0
// Several NICs share one address: the slot in a packet's QPN tells whose ring it goes into.
#include "engine/broker/slots.h"
#include "tests/unit/shm/shm_fixture.h"

namespace uroce::test {
namespace {

class ShmSlotsTest : public ShmTest {};

TEST_F(ShmSlotsTest, EachSlotHasItsRing) {
  auto sockets = engine::open_slot_sockets(address(2));
  ASSERT_TRUE(sockets) << sockets.error().sentence;
  const auto open_slot = [&](std::uint8_t slot) {
    EXPECT_TRUE(engine::revive_slot((*sockets)[slot].get()));
    std::vector<engine::ReceiveSocket> receivers;
    receivers.push_back(engine::adopt_receive_socket(std::move((*sockets)[slot]), address(2)));
    auto udp = engine::open_port_on(std::move(receivers), engine::EngineChoice::kAuto);
    EXPECT_TRUE(udp);
    return with_links(std::move(*udp), 2, slot);
  };
  const auto a = open(1);
  const auto five = open_slot(5);
  const auto six = open_slot(6);
  ASSERT_TRUE(a && five && six);
  ASSERT_TRUE(link(*a, *five, path(1, 2), 5));
  ASSERT_TRUE(link(*a, *six, path(1, 2), 6));
  ASSERT_TRUE(link(*five, *six, path(2, 2), 6)) << "the same address on both sides";
  Inbox inbox5, inbox6;
  for (std::uint32_t i = 0; i < 20; ++i) {
    queue(*a, path(1, 2), i, 64, 5);
    queue(*a, path(1, 2), i, 64, 6);
  }
  a->flush();
  receive(*five, inbox5, 20);
  receive(*six, inbox6, 20);
  expect_in_order(inbox5);
  expect_in_order(inbox6);
  EXPECT_EQ(inbox6.packets[0].bytes[5], 6);
  // Nobody has this slot.
  const auto before = a->counters().sent_by_shm;
  queue(*a, path(1, 2), 0, 64, 7);
  a->flush();
  EXPECT_EQ(a->counters().sent_by_shm, before);
}

}  // namespace
}  // namespace uroce::test
