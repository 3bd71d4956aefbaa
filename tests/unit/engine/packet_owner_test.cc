// SPDX-License-Identifier: Apache-2.0
// Whom packets are left to, and what the port and the background thread hear of that.
#include "engine/run/packet_owner.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/waiting_port.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kPollerTrust;
using engine::kSleeperTrust;
using Masks = std::vector<bool>;

class PacketOwnerTest : public testing::Test {
 protected:
  /// A sleeper comes, gets its event and posts, many times in a row.
  void have_a_regular_sleeper() {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(packets.on_sleep(&sleeper, now, true));
      packets.on_event(now, false);
      packets.on_post();
    }
  }

  WaitingPort port;
  engine::BackgroundSleep background{port};
  engine::PacketOwner packets{port, background};
  const int sleeper = 0, other = 0;
  Instant now = engine::os_now();
};

TEST_F(PacketOwnerTest, ThePortHearsOfPollersOnce) {
  packets.leave_to_pollers();
  packets.leave_to_pollers();
  EXPECT_TRUE(packets.are_masked());
  packets.take_from_pollers(now);
  packets.take_from_pollers(now);
  EXPECT_FALSE(packets.are_masked());
  EXPECT_EQ(port.masks, (Masks{true, false}));
}

TEST_F(PacketOwnerTest, OneSleeperHasThem) {
  EXPECT_FALSE(packets.on_sleep(&other, now, false));
  EXPECT_TRUE(packets.on_sleep(&sleeper, now, true));
  EXPECT_FALSE(packets.on_sleep(&other, now, true));
  EXPECT_TRUE(packets.are_left_to(&sleeper));
  EXPECT_FALSE(packets.are_left_to(&other));
  packets.leave_to_pollers();
  packets.take_from_pollers(now);
  EXPECT_TRUE(packets.are_masked()) << "the sleeper has them still";
  EXPECT_FALSE(packets.on_event(now, false));
  EXPECT_FALSE(packets.are_masked());
  EXPECT_TRUE(packets.has_sleepers());
  packets.on_other_event();
  packets.on_other_event();
  EXPECT_FALSE(packets.has_sleepers());
}

TEST_F(PacketOwnerTest, TheyWaitForASleeperThatUsuallyComesBack) {
  have_a_regular_sleeper();
  EXPECT_TRUE(packets.is_sleeper_due());
  EXPECT_TRUE(packets.sleeper_posts());
  EXPECT_TRUE(packets.are_masked());
  packets.forget_late_sleeper(now + kPollerTrust);
  EXPECT_TRUE(packets.are_masked()) << "it is not late yet";
  packets.forget_late_sleeper(now + kPollerTrust + 1us);
  EXPECT_FALSE(packets.are_masked());
  EXPECT_FALSE(packets.is_sleeper_due());
}

TEST_F(PacketOwnerTest, TheyDoNotWaitForOneThatLeaves) {
  have_a_regular_sleeper();
  ASSERT_TRUE(packets.on_sleep(&sleeper, now, true));
  EXPECT_FALSE(packets.on_event(now, true));
  EXPECT_FALSE(packets.are_masked());
}

TEST_F(PacketOwnerTest, NorForOneOfSeveral) {
  have_a_regular_sleeper();
  ASSERT_TRUE(packets.on_sleep(&sleeper, now, true));
  packets.on_sleep(&other, now, true);
  EXPECT_FALSE(packets.on_event(now, false));
  EXPECT_FALSE(packets.are_masked());
}

TEST_F(PacketOwnerTest, ASleeperThatDoesNotTakeThemLosesThem) {
  ASSERT_TRUE(packets.on_sleep(&sleeper, now, true));
  packets.on_sleeper_turn(now + 1s);
  packets.dismiss_late_sleeper(now + 1s + kSleeperTrust - 1us);
  EXPECT_TRUE(packets.are_left_to(&sleeper));
  packets.dismiss_late_sleeper(now + 1s + kSleeperTrust);
  EXPECT_FALSE(packets.are_left_to(&sleeper));
  EXPECT_FALSE(packets.are_masked());
  EXPECT_FALSE(packets.has_sleepers());
}

}  // namespace
}  // namespace uroce::test
