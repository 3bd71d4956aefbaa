// SPDX-License-Identifier: Apache-2.0
// Whether a program waits for WRITEs by watching its memory.
#include "engine/run/write_watch.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

class WriteWatchTest : public testing::Test {
 protected:
  engine::WriteWatch watch;
  Instant now{1s};
};

TEST_F(WriteWatchTest, AProgramThatWaitsForThemIsKnownToDoSo) {
  for (int i = 0; i < engine::kLoyaltyNeeded; ++i) {
    EXPECT_FALSE(watch.expects());
    watch.on_left(now);
    watch.on_written(now += engine::kWriteSoon, 1);
    watch.on_call();
  }
  EXPECT_TRUE(watch.should_look_out());
  watch.on_look_out(1, /*is_over=*/true);
  EXPECT_TRUE(watch.should_look_out());
  watch.on_look_out(0, /*is_over=*/true);
  EXPECT_FALSE(watch.should_look_out()) << "it waited, and nothing came";
}

TEST_F(WriteWatchTest, OneThatMakesAsManyCallsAsTheLastTimeIsKnownToo) {
  const auto call = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      watch.on_call();
      EXPECT_FALSE(watch.should_look_out());
      watch.on_left(now);
    }
  };
  for (int i = 0; i < engine::kLoyaltyNeeded + 1; ++i) {
    call(3);
    watch.on_written(now, 1);
  }
  call(2);
  EXPECT_TRUE(watch.should_look_out());
  watch.on_look_out(1, /*is_over=*/true);
  call(2);
  EXPECT_TRUE(watch.should_look_out());
  watch.on_left(now);
  watch.on_call();
  EXPECT_FALSE(watch.expects()) << "there was a fourth";
}

TEST_F(WriteWatchTest, AnAnswerHasAsManyWritesAsTheLastOne) {
  for (int i = 0; i < engine::kLoyaltyNeeded; ++i) {
    watch.on_call();
    watch.on_left(now);
    watch.on_written(now, 2);
    watch.on_written(now + engine::kWriteSoon, 1);
  }
  watch.on_call();
  EXPECT_TRUE(watch.should_look_out());
  EXPECT_EQ(watch.usual_writes(), 3);
  watch.on_look_out(3, /*is_over=*/true);
  watch.on_written(now, 1);
  watch.on_call();
  EXPECT_TRUE(watch.should_look_out());
  EXPECT_EQ(watch.usual_writes(), 4);
  watch.on_look_out(3, /*is_over=*/true);
  watch.on_call();
  EXPECT_FALSE(watch.should_look_out()) << "it waited, and the fourth did not come";
  EXPECT_EQ(watch.usual_writes(), 3);
}

TEST_F(WriteWatchTest, OneThatMakesMoreOrFewerIsNot) {
  for (int i = 0; i < 200; ++i) {
    for (int calls = 0; calls < 1 + i % 2; ++calls) {
      watch.on_call();
      watch.on_left(now);
    }
    watch.on_written(now, 1);
    EXPECT_FALSE(watch.expects());
  }
}

TEST_F(WriteWatchTest, OneThatCallsBeforeTheyComeOrGoesToSleepIsNot) {
  for (int i = 0; i < 200; ++i) {
    watch.on_left(now);
    i % 2 == 0 ? watch.on_call() : watch.on_stop();
    watch.on_written(now, 1);
  }
  EXPECT_FALSE(watch.expects());
}

TEST_F(WriteWatchTest, OneThatGetsThemLateIsNot) {
  for (int i = 0; i < 200; ++i) {
    watch.on_left(now);
    watch.on_written(now += engine::kWriteSoon + 1us, 1);
  }
  EXPECT_FALSE(watch.expects());
}

TEST_F(WriteWatchTest, NowAndThenItIsSeenWhetherItStillWaits) {
  for (int i = 0; i < engine::kLoyaltyNeeded; ++i) {
    watch.on_left(now);
    watch.on_written(now, 1);
  }
  std::uint32_t looks = 0;
  for (; watch.should_look_out(); ++looks) watch.on_look_out(1, /*is_over=*/true);
  EXPECT_LT(looks, engine::kLookOutsToCheck);
  watch.on_left(now);
  watch.on_call();
  EXPECT_FALSE(watch.expects()) << "it did something else";
}

TEST_F(WriteWatchTest, OneThatWaitsTimeAndAgainIsSeenToMoreSeldom) {
  const auto learn = [this] {
    for (int i = 0; i < engine::kLoyaltyNeeded; ++i) {
      watch.on_left(now);
      watch.on_written(now, 1);
    }
  };
  const auto looks_until_check = [this] {
    std::uint32_t looks = 0;
    for (; watch.should_look_out(); ++looks) watch.on_look_out(1, /*is_over=*/true);
    return looks;
  };
  learn();
  for (const std::uint32_t expected : {128u, 256u, 512u, 1024u, 2048u, 4096u, 4096u}) {
    EXPECT_EQ(looks_until_check() + 1, expected);
    watch.on_left(now);
    watch.on_written(now, 1);
  }
  looks_until_check();
  watch.on_left(now);
  watch.on_call();
  learn();
  EXPECT_LT(looks_until_check(), engine::kLookOutsToCheck) << "it has done something else";
}

}  // namespace
}  // namespace uroce::test
