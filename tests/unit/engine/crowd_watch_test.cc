// SPDX-License-Identifier: Apache-2.0
// When a thread that polls on a crowded machine is to sleep.
#include "engine/run/crowd_watch.h"

#include <gtest/gtest.h>

#include "tests/support/on_a_processor.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

class CrowdWatchTest : public OnAProcessor {
 protected:
  /// Turns the crank for nothing every microsecond, for so long. Returns how often it should have slept.
  int poll_idly(Duration duration, int nic = 0) {
    int sleeps = 0;
    for (const Instant end = now + duration; now < end;) {
      now += 1us;
      if (turn(/*was_idle=*/true, nic)) ++sleeps;
    }
    return sleeps;
  }
  /// Others run for so long.
  void preempt(Duration duration = 3ms) {
    now += duration;
    ++preemptions;
  }
  void sleep(Duration duration, bool in_vain = false) {
    const Instant since = now;
    now += duration;
    watch.on_slept(since, now, in_vain);
  }
  bool turn(bool was_idle, int nic = 0) {
    watch.on_turn(&nics[nic], now, was_idle, [this] {
      ++asked;
      return preemptions;
    });
    return watch.should_sleep();
  }
  void be_in_crowd() {
    poll_idly(engine::kCrowdedFor);
    preempt();
    turn(/*was_idle=*/false);
  }

  engine::CrowdWatch watch;
  Instant now{1h};
  int nics[2] = {};
  long preemptions = 7;
  int asked = 0;
};

constexpr Duration kSpin = engine::kCrowdedSpin;  // From the first idle turn on.

TEST_F(CrowdWatchTest, AloneItPollsOn) {
  EXPECT_EQ(poll_idly(200ms), 0);
  EXPECT_LE(asked, 1);
}

TEST_F(CrowdWatchTest, InACrowdItSleepsAfterAWhile) {
  be_in_crowd();
  EXPECT_EQ(poll_idly(kSpin), 0);
  EXPECT_EQ(poll_idly(1us), 1);
}

TEST_F(CrowdWatchTest, WhatItFindsBeginsTheWhileAnew) {
  be_in_crowd();
  poll_idly(kSpin);
  turn(/*was_idle=*/false);
  EXPECT_EQ(poll_idly(kSpin), 0);
  watch.on_found();
  EXPECT_EQ(poll_idly(kSpin), 0);
  EXPECT_EQ(poll_idly(1us), 1);
}

TEST_F(CrowdWatchTest, APauseBeginsTheWhileAnew) {
  be_in_crowd();
  poll_idly(kSpin);
  now += 100us;
  EXPECT_EQ(poll_idly(kSpin), 0);
  EXPECT_EQ(poll_idly(1us), 1);
  preempt();
  EXPECT_EQ(poll_idly(kSpin), 0) << "What came meanwhile is seen first.";
}

TEST_F(CrowdWatchTest, ItSleepsOnceInVain) {
  be_in_crowd();
  EXPECT_EQ(poll_idly(kSpin + 1us), 1);
  sleep(engine::kCrowdedSleep, /*in_vain=*/true);
  EXPECT_EQ(poll_idly(1ms), 0) << "It waits for something else.";
  turn(/*was_idle=*/false);
  EXPECT_EQ(poll_idly(kSpin + 1us), 1);
  sleep(100us);
  EXPECT_EQ(poll_idly(1us), 1) << "There were packets, of which nothing came.";
}

TEST_F(CrowdWatchTest, ASleepIsNoPause) {
  be_in_crowd();
  poll_idly(kSpin + 1us);
  const int before = asked;
  sleep(engine::kCrowdedSleep);
  turn(/*was_idle=*/false);
  EXPECT_EQ(asked, before);
}

TEST_F(CrowdWatchTest, ASleepThatTakesLongerThanMeantIsRememberedForAWhile) {
  be_in_crowd();
  poll_idly(kSpin + 1us);
  sleep(engine::kCrowdedSleep);
  EXPECT_FALSE(watch.wakes_late());
  sleep(engine::kCrowdedSleep * 3);
  EXPECT_TRUE(watch.wakes_late());
  poll_idly(engine::kCrowdedFor - 1ms);
  EXPECT_TRUE(watch.wakes_late());
  poll_idly(2ms);
  EXPECT_FALSE(watch.wakes_late());
}

TEST_F(CrowdWatchTest, ItDoesNotSleepForOneOfTwoNics) {
  be_in_crowd();
  int sleeps = 0;
  for (int i = 0; i < 2000; ++i) {
    if (i % 20 == 0) preempt();
    sleeps += poll_idly(kSpin * 2, (i + 1) % 2);
  }
  EXPECT_EQ(sleeps, 0);
  poll_idly(engine::kCrowdedFor);
  preempt();
  EXPECT_EQ(poll_idly(kSpin + 1us), 1);
}

TEST_F(CrowdWatchTest, TheCrowdIsForgotten) {
  be_in_crowd();
  for (const Instant end = now + engine::kCrowdedFor; now < end; turn(/*was_idle=*/false)) poll_idly(1us);
  EXPECT_EQ(poll_idly(10ms), 0);
}

TEST_F(CrowdWatchTest, APauseOfTheProgramIsNoCrowd) {
  poll_idly(engine::kCrowdedFor);
  now += 3ms;
  EXPECT_EQ(poll_idly(10ms), 0);
}

TEST_F(CrowdWatchTest, APreemptionBetweenSinglePollsSaysNothing) {
  for (int i = 0; i < 100; ++i) {
    preempt();
    EXPECT_FALSE(turn(/*was_idle=*/true));
  }
  EXPECT_EQ(poll_idly(100ms), 0);
  EXPECT_LE(asked, 1);
}

}  // namespace
}  // namespace uroce::test
