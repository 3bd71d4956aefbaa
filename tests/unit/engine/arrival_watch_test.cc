// SPDX-License-Identifier: Apache-2.0
// When the background thread stays awake for the next packet.
#include "engine/run/arrival_watch.h"

#include <gtest/gtest.h>

#include "tests/support/on_a_processor.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

class ArrivalWatchTest : public OnAProcessor {
 protected:
  void take(int times, Duration apart) {
    for (int i = 0; i < times; ++i) watch.on_packets(now += apart);
  }
  bool stays_awake() const { return watch.should_stay_awake(now); }

  engine::ArrivalWatch watch;
  Instant now{1h};
};

TEST_F(ArrivalWatchTest, PacketsThatFollowEachOtherAreExpected) {
  take(engine::kLoyaltyNeeded, 100us);
  EXPECT_FALSE(stays_awake()) << "the first one followed nothing";
  take(1, 100us);
  EXPECT_TRUE(stays_awake());
}

TEST_F(ArrivalWatchTest, LaterOnesAreNot) {
  take(200, 101us);
  EXPECT_FALSE(stays_awake());
}

TEST_F(ArrivalWatchTest, VainWaitsAreGivenUp) {
  take(1 + engine::kLoyaltyMax, 1us);
  for (int i = 0; i < 4; ++i) watch.on_nothing();
  EXPECT_TRUE(stays_awake());
  watch.on_nothing();
  EXPECT_FALSE(stays_awake());
}

TEST_F(ArrivalWatchTest, WhereOthersWantTheProcessorItSleepsForAWhile) {
  take(100, 1us);
  EXPECT_TRUE(watch.on_yield(now, now + 10us));
  EXPECT_TRUE(stays_awake());
  for (const int times : {1, 2, 4, 8, 16, 32, 32}) {
    EXPECT_FALSE(watch.on_yield(now - 1ms, now));
    EXPECT_FALSE(stays_awake());
    now += times * 1ms - 1us;
    EXPECT_FALSE(stays_awake()) << "the longer others ran, and the more often";
    now += 1us;
    EXPECT_TRUE(stays_awake());
  }
  for (int i = 0; i < engine::kYieldsUndisturbed; ++i) watch.on_yield(now, now + 10us);
  EXPECT_FALSE(watch.on_yield(now - 1ms, now));
  now += 16ms - 1us;
  EXPECT_FALSE(stays_awake());
  now += 1us;
  EXPECT_TRUE(stays_awake());
}

}  // namespace
}  // namespace uroce::test
