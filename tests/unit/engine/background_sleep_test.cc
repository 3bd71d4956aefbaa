// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps while packets are left to somebody.
#include "engine/run/background_sleep.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/engine/waiting_port.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kPollerTrust;
using engine::kRelaxedWatch;
using engine::kRelaxedWatchMost;
using engine::kSleepBesideOthers;

class BackgroundSleepTest : public testing::Test {
 protected:
  WaitingPort port;
  engine::BackgroundSleep sleep{port};
  const Instant now = engine::os_now();
};

TEST_F(BackgroundSleepTest, ARelaxedWatchIsADoze) {
  sleep.watch_relaxed();
  ASSERT_EQ(port.dozes.size(), 1u);
  EXPECT_GE(port.dozes[0].earliest, now + kRelaxedWatch);
  EXPECT_EQ(port.dozes[0].slack, kRelaxedWatchMost - kRelaxedWatch);
}

TEST_F(BackgroundSleepTest, NothingElseIs) {
  sleep.watch_for(kPollerTrust);
  sleep.sleep_watching(/*may_relax=*/false);
  sleep.sleep();
  EXPECT_TRUE(port.dozes.empty());
}

TEST_F(BackgroundSleepTest, NorIsASleepThatEndsBeforeThat) {
  const Instant planned = now + 3ms;
  sleep.plan(now, planned, /*received=*/false);
  EXPECT_FALSE(sleep.sleep_watching(/*may_relax=*/true)) << "it ends as planned";
  EXPECT_TRUE(port.dozes.empty());
  EXPECT_EQ(port.deadline, planned);
}

TEST_F(BackgroundSleepTest, ItTellsWhetherNothingButItsTimeEndedAWatch) {
  EXPECT_TRUE(sleep.sleep_watching(false));
  EXPECT_TRUE(sleep.sleep_watching(true));
  port.is_woken = true;
  EXPECT_FALSE(sleep.sleep_watching(false));
  EXPECT_FALSE(sleep.sleep_watching(true));
  port.is_woken = false;
  sleep.plan(now, now, /*received=*/false);
  EXPECT_FALSE(sleep.sleep_watching(false)) << "it was planned";
}

TEST_F(BackgroundSleepTest, APlanBesideOthersReplacesTheLast) {
  sleep.plan_beside_others(now, now + 1ms);
  EXPECT_EQ(sleep.wake_at(), now + 1ms);
  sleep.plan_beside_others(now, std::nullopt);
  EXPECT_EQ(sleep.wake_at(), now + kSleepBesideOthers);
  sleep.inform(now + kSleepBesideOthers);
  EXPECT_EQ(port.wakes, 0);
  EXPECT_TRUE(sleep.sleep_watching(/*may_relax=*/true));
}

TEST_F(BackgroundSleepTest, WhereThereIsNoNewPlanItWatchesAllTheSame) {
  sleep.plan(now, now, /*received=*/false);
  EXPECT_TRUE(sleep.watch_again(/*may_relax=*/true));
  EXPECT_EQ(port.dozes.size(), 1u);
  EXPECT_TRUE(sleep.watch_again(/*may_relax=*/false));
  EXPECT_EQ(port.dozes.size(), 1u);
}

TEST_F(BackgroundSleepTest, ItIsToldOfDeadlinesBeforeAWatchEndsThatHasOutlastedItsPlan) {
  sleep.plan(now, now, /*received=*/false);
  port.during_wait = [&] {
    sleep.inform(engine::os_now() + kRelaxedWatchMost);
    EXPECT_EQ(port.wakes, 0);
    sleep.inform(now + kRelaxedWatchMost - 1us);
    EXPECT_EQ(port.wakes, 1);
  };
  sleep.watch_relaxed();
  sleep.inform(now + kRelaxedWatchMost - 1us);
  EXPECT_EQ(port.wakes, 1) << "it is awake";
}

TEST_F(BackgroundSleepTest, OnlyWhoWakesItToSendSaysSo) {
  sleep.inform(now);
  EXPECT_TRUE(sleep.is_informed());
  EXPECT_FALSE(sleep.has_to_send());
  sleep.wake();
  EXPECT_TRUE(sleep.has_to_send());
  sleep.on_turn();
  EXPECT_FALSE(sleep.has_to_send());
}

TEST_F(BackgroundSleepTest, ItIsWokenForWhatComesBeforeTheEndOfARelaxedWatch) {
  port.during_wait = [&] {
    sleep.on_unmask();
    sleep.inform(engine::os_now() + kRelaxedWatchMost);
    EXPECT_EQ(port.wakes, 0);
    sleep.inform(now + kRelaxedWatchMost - 1us);
    EXPECT_EQ(port.wakes, 1);
  };
  sleep.watch_relaxed();
}

}  // namespace
}  // namespace uroce::test
