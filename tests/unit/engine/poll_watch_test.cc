// SPDX-License-Identifier: Apache-2.0
// How far polls are relied on.
#include "engine/run/poll_watch.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::PollWatch;

class PollWatchTest : public testing::Test {
 protected:
  void poll(int times, Duration every) {
    for (int i = 0; i < times; ++i) watch.on_poll(now += every);
  }
  /// Polls that find something, each time after `pause`.
  void find(int times, Duration pause) {
    for (int i = 0; i < times; ++i) {
      poll(1, pause);
      watch.on_poll_done(now, /*found=*/true);
    }
  }
  bool waits() const { return watch.waits(now); }
  bool is_loyal() const { return watch.is_loyal(now); }

  PollWatch watch;
  Instant now{1h};
};

TEST_F(PollWatchTest, NobodyIsReliedOnAtFirst) {
  EXPECT_FALSE(waits());
  EXPECT_FALSE(is_loyal());
}

TEST_F(PollWatchTest, ARowOfPollsWaitsForPackets) {
  poll(3, 10us);
  EXPECT_FALSE(waits());
  poll(1, 10us);
  EXPECT_TRUE(waits());
}

TEST_F(PollWatchTest, APauseStartsTheRowAnew) {
  poll(20, 1us);
  poll(1, 11us);
  EXPECT_FALSE(waits());
  poll(3, 1us);
  EXPECT_TRUE(waits());
}

TEST_F(PollWatchTest, WorkThatAPollOrAnotherCallDoesIsNoPause) {
  for (int i = 0; i < 4; ++i) {
    poll(1, 5us);
    watch.on_poll_done(now += 80us, /*found=*/false);
    watch.on_call_done(now += 80us);
  }
  EXPECT_TRUE(waits());
}

TEST_F(PollWatchTest, AProgramThatSleepsDoesNotWait) {
  poll(20, 1us);
  watch.on_stop();
  EXPECT_FALSE(waits());
}

TEST_F(PollWatchTest, AProgramThatPollsOnWhenItHasFoundSomethingIsLoyal) {
  find(32, 5us);
  EXPECT_FALSE(is_loyal()) << "the last find has not been followed by a poll yet";
  poll(1, 5us);
  EXPECT_TRUE(is_loyal());
  poll(1, 1h);
  EXPECT_TRUE(is_loyal()) << "a pause after a poll that found nothing says nothing about those that do";
}

TEST_F(PollWatchTest, AProgramThatStopsWhenItHasFoundSomethingIsNot) {
  find(100, 11us);
  EXPECT_FALSE(is_loyal());
  find(100, 5us);
  EXPECT_TRUE(is_loyal());
  find(17, 11us);
  EXPECT_FALSE(is_loyal());
}

TEST_F(PollWatchTest, WhereItMattersNowAndThenIsEnough) {
  for (int i = 0; i < 100; ++i) {
    find(3, 5us);
    find(1, 20us);
  }
  EXPECT_TRUE(is_loyal()) << "the loss for a pause is smaller than the gain for three";
}

TEST_F(PollWatchTest, AfterPacketsHadToWaitOnlyALongRowCounts) {
  find(100, 5us);
  watch.on_deserted(now);
  EXPECT_FALSE(is_loyal());
  poll(1, 11us);
  poll(254, 1us);
  EXPECT_FALSE(waits());
  poll(1, 1us);
  EXPECT_TRUE(waits());
}

TEST_F(PollWatchTest, ThatIsForgottenAfterAWhile) {
  watch.on_deserted(now);
  now += 200ms;
  poll(4, 5us);
  EXPECT_TRUE(waits());
}

}  // namespace
}  // namespace uroce::test
