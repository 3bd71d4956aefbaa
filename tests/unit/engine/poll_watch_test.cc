// When a poller is trusted with the network.
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
  bool trusted() const { return now < watch.trusted_until(); }

  PollWatch watch;
  Instant now{1h};
};

TEST_F(PollWatchTest, NobodyIsTrustedAtFirst) { EXPECT_FALSE(trusted()); }

TEST_F(PollWatchTest, ARowOfPollsEarnsTrustForAMillisecond) {
  poll(7, 50us);
  EXPECT_FALSE(trusted());
  poll(1, 50us);
  EXPECT_TRUE(trusted());
  EXPECT_EQ(watch.trusted_until(), now + 1ms);
}

TEST_F(PollWatchTest, APauseStartsTheRowAnew) {
  poll(20, 1us);
  poll(1, 101us);
  EXPECT_FALSE(trusted());
  poll(7, 1us);
  EXPECT_TRUE(trusted());
}

TEST_F(PollWatchTest, WorkThatAPollDoesIsNoPause) {
  watch.on_deserted(now);
  for (int i = 0; i < 512; ++i) {
    poll(1, 5us);
    watch.on_poll_done(now += 80us);
  }
  EXPECT_TRUE(trusted());
}

TEST_F(PollWatchTest, WhoSleepsIsNotTrusted) {
  poll(20, 1us);
  watch.on_stop();
  EXPECT_FALSE(trusted());
}

TEST_F(PollWatchTest, AfterPacketsHadToWaitTrustTakesALongRow) {
  poll(20, 1us);
  watch.on_deserted(now);
  EXPECT_FALSE(trusted());
  poll(500, 1us);
  EXPECT_FALSE(trusted());
  poll(1, 11us);  // What it does between its polls counts for more, too.
  poll(510, 1us);
  EXPECT_FALSE(trusted());
  poll(1, 1us);
  EXPECT_TRUE(trusted());
}

TEST_F(PollWatchTest, ThatIsForgottenAfterAWhile) {
  watch.on_deserted(now);
  now += 200ms;
  poll(8, 50us);
  EXPECT_TRUE(trusted());
}

}  // namespace
}  // namespace uroce::test
