// SPDX-License-Identifier: Apache-2.0
// When a thread that polls on a crowded machine is to sleep.
#include "engine/run/crowd_watch.h"

#include <gtest/gtest.h>

#include <utility>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

class CrowdWatchTest : public testing::Test {
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
    was_preempted = true;
  }
  bool turn(bool was_idle, int nic = 0) {
    return watch.on_turn(&nics[nic], now, was_idle, [this] {
      ++asked;
      return std::exchange(was_preempted, false);
    });
  }
  void be_in_crowd() {
    poll_idly(10us);
    preempt();
    turn(/*was_idle=*/false);
  }

  engine::CrowdWatch watch;
  Instant now{1h};
  int nics[2] = {};
  bool was_preempted = false;
  int asked = 0;
};

TEST_F(CrowdWatchTest, AloneItPollsOn) {
  EXPECT_EQ(poll_idly(10ms), 0);
  EXPECT_EQ(asked, 0);
}

TEST_F(CrowdWatchTest, InACrowdItSleepsAfterAWhile) {
  be_in_crowd();
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin), 0);
  EXPECT_EQ(poll_idly(1us), 1);
}

TEST_F(CrowdWatchTest, WhatItFindsBeginsTheWhileAnew) {
  be_in_crowd();
  poll_idly(engine::kCrowdedSpin);
  turn(/*was_idle=*/false);
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin), 0);
  watch.on_found();
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin), 0);
  EXPECT_EQ(poll_idly(1us), 1);
}

TEST_F(CrowdWatchTest, ItSleepsOnceInVain) {
  be_in_crowd();
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin + 1us), 1);
  now += engine::kCrowdedSleep;
  watch.on_slept(now, /*in_vain=*/true);
  EXPECT_EQ(poll_idly(1ms), 0) << "it waits for something else";
  turn(/*was_idle=*/false);
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin + 1us), 1);
  watch.on_slept(now, /*in_vain=*/false);
  EXPECT_EQ(poll_idly(1us), 1) << "packets of which nothing came";
  EXPECT_EQ(asked, 1) << "to sleep is no preemption";
}

TEST_F(CrowdWatchTest, ItIsNotForASecondNicToSleep) {
  be_in_crowd();
  int sleeps = 0;
  for (int i = 0; i < 1000; ++i) sleeps += poll_idly(1us, i % 2);
  EXPECT_EQ(sleeps, 0);
  poll_idly(1us);
  EXPECT_EQ(poll_idly(engine::kCrowdedSpin + 1us), 1);
}

TEST_F(CrowdWatchTest, TheCrowdIsForgotten) {
  be_in_crowd();
  for (const Instant end = now + engine::kCrowdedFor; now < end; turn(/*was_idle=*/false)) poll_idly(1us);
  EXPECT_EQ(poll_idly(10ms), 0);
}

TEST_F(CrowdWatchTest, APauseOfTheProgramIsNoCrowd) {
  poll_idly(10us);
  now += 3ms;
  EXPECT_EQ(poll_idly(10ms), 0);
  EXPECT_EQ(asked, 1);
}

TEST_F(CrowdWatchTest, APreemptionBetweenSinglePollsSaysNothing) {
  for (int i = 0; i < 10; ++i) {
    preempt();
    EXPECT_FALSE(turn(/*was_idle=*/true));
  }
  EXPECT_EQ(poll_idly(10ms), 0);
}

}  // namespace
}  // namespace uroce::test
