// SPDX-License-Identifier: Apache-2.0
// How far polls are relied on.
#include "engine/run/poll_watch.h"

#include <gtest/gtest.h>

#include "tests/support/on_a_processor.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::PollWatch;

class PollWatchTest : public OnAProcessor {
 protected:
  void poll(int times, Duration every) {
    for (int i = 0; i < times; ++i) watch.on_poll(now += every, [this] { return is_preempted; });
  }
  /// Polls that find something, each time after `pause`.
  void find(int times, Duration pause) {
    for (int i = 0; i < times; ++i) {
      poll(1, pause);
      watch.on_poll_done(now, /*found=*/true);
    }
  }
  /// Posts; polls `pause` after each of them, some times.
  void post(int times, Duration pause, int polls = 3) {
    for (int i = 0; i < times; ++i) {
      watch.on_posted(now += 30us);
      poll(1, pause);
      poll(polls - 1, 1us);
    }
  }
  bool begin_post(Duration pause = {}, bool was_preempted = false) {
    return watch.on_post(now += pause, [=] { return was_preempted; });
  }
  bool follows_posts() const { return watch.follows_posts(now); }
  bool waits() const { return watch.waits(now); }
  bool is_loyal() const { return watch.is_loyal(now); }

  bool is_preempted = false;
  PollWatch watch;
  Instant now{1h};
};

TEST_F(PollWatchTest, NobodyIsReliedOnAtFirst) {
  EXPECT_FALSE(waits());
  EXPECT_FALSE(is_loyal());
  EXPECT_FALSE(follows_posts());
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

TEST_F(PollWatchTest, OneWhoseThreadWasPreemptedHasNotStopped) {
  is_preempted = true;
  for (int i = 0; i < engine::kLoyaltyMax; ++i) {
    find(2, 1us);
    find(1, 1ms);
  }
  EXPECT_FALSE(is_loyal()) << "it was not known to poll on";
  find(engine::kLoyaltyMax, 1us);
  EXPECT_TRUE(is_loyal());
  find(engine::kLoyaltyMax, 1ms);
  EXPECT_TRUE(is_loyal());
  is_preempted = false;
  find(engine::kLoyaltyMax, 1ms);
  EXPECT_FALSE(is_loyal());
}

TEST_F(PollWatchTest, WhereItMattersNowAndThenIsEnough) {
  for (int i = 0; i < 100; ++i) {
    find(3, 5us);
    find(1, 20us);
  }
  EXPECT_TRUE(is_loyal()) << "the loss for a pause is smaller than the gain for three";
}

TEST_F(PollWatchTest, AProgramThatAnswersAWriteIsNotLoyalHoweverSoonItPolls) {
  for (int i = 0; i < 200; ++i) {
    find(1, 5us);
    if (i % 2 == 0) watch.on_written();
    if (i % 2 == 1) watch.on_poll_done(now, /*found=*/true, /*is_told=*/true);
    begin_post();
  }
  EXPECT_FALSE(is_loyal());
}

TEST_F(PollWatchTest, OneThatPollsOnIsWhateverIsWritten) {
  for (int i = 0; i < 200; ++i) {
    find(1, 5us);
    watch.on_written();
  }
  EXPECT_TRUE(is_loyal());
}

TEST_F(PollWatchTest, AProgramThatPollsOnceItHasPostedIsKnownToDoSo) {
  post(31, 5us);
  EXPECT_FALSE(follows_posts());
  post(1, 5us);
  EXPECT_TRUE(follows_posts());
  EXPECT_FALSE(is_loyal());
}

TEST_F(PollWatchTest, OneThatPollsLaterOrNeverIsNot) {
  post(100, 11us);
  EXPECT_FALSE(follows_posts());
  post(100, 5us);
  const auto lack = [this](int times) {
    for (int i = 0; i < times; ++i) {
      watch.on_posted(now += 30us);
      watch.on_absence();
    }
  };
  watch.on_absence();  // Nothing was posted.
  lack(16);
  EXPECT_TRUE(follows_posts());
  lack(1);
  EXPECT_FALSE(follows_posts());
}

TEST_F(PollWatchTest, LatePostsShowThatNobodyPolls) {
  EXPECT_TRUE(begin_post()) << "the first one";
  watch.on_posted(now);
  EXPECT_TRUE(begin_post(100us));
  watch.on_posted(now);
  EXPECT_FALSE(begin_post(101us));
  EXPECT_TRUE(begin_post()) << "said once";
}

TEST_F(PollWatchTest, APostIsLateForNoReasonOfTheProgramsWhenItsThreadWasPreempted) {
  post(33, 5us);
  watch.on_posted(now);
  EXPECT_TRUE(begin_post(200us, /*was_preempted=*/true));
  EXPECT_TRUE(follows_posts());
  EXPECT_FALSE(begin_post(200us)) << "not this time";
  watch.on_posted(now);
  EXPECT_FALSE(begin_post(200us));
  EXPECT_FALSE(follows_posts());
}

TEST_F(PollWatchTest, APostContinuesARowRightBehindAnotherOne) {
  EXPECT_FALSE(watch.continues_posts(now));
  watch.on_posted(now);
  EXPECT_TRUE(watch.continues_posts(now + 2us));
  EXPECT_FALSE(watch.continues_posts(now + 3us));
  poll(1, 1us);
  EXPECT_FALSE(watch.continues_posts(now));
}

TEST_F(PollWatchTest, OneThatSleepsForEventsIsNotExpectedToPollWhenAnotherThreadPosts) {
  post(32, 5us);
  watch.on_stop();
  EXPECT_FALSE(follows_posts());
  poll(3, 11us);  // It looks what the event was about.
  EXPECT_FALSE(follows_posts());
  poll(4, 1us);
  EXPECT_TRUE(follows_posts());
}

TEST_F(PollWatchTest, APollAfterManyPostsFollowsAllOfThem) {
  for (int i = 0; i < 32; ++i) {
    for (int k = 0; k < 20; ++k) watch.on_posted(now += 20us);  // Some of them are slow.
    poll(1, 5us);
  }
  EXPECT_TRUE(follows_posts());
}

TEST_F(PollWatchTest, PollsWithoutPostsSayNothingAboutThem) {
  poll(100, 1us);
  EXPECT_FALSE(follows_posts());
  post(32, 5us);
  poll(100, 11us);
  EXPECT_TRUE(follows_posts());
}

TEST_F(PollWatchTest, AfterPacketsHadToWaitOnlyALongRowCounts) {
  find(100, 5us);
  post(32, 5us);
  watch.on_deserted(now);
  EXPECT_FALSE(is_loyal());
  EXPECT_FALSE(follows_posts());
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

class SleepWatchTest : public OnAProcessor {
 protected:
  /// Sleeps until an event comes, and is away for `pause`.
  void sleep(int times, Duration pause) {
    for (int i = 0; i < times; ++i) {
      watch.on_sleep(now += pause);
      watch.on_event(now += 1ms);
    }
  }
  engine::SleepWatch watch;
  Instant now{1h};
};

TEST_F(SleepWatchTest, AThreadThatComesBackSoonIsKnownToDoSo) {
  sleep(32, 100us);
  EXPECT_FALSE(watch.comes_back()) << "the last event has not been followed by a sleep yet";
  sleep(1, 100us);
  EXPECT_TRUE(watch.comes_back());
}

TEST_F(SleepWatchTest, OneThatComesBackLateIsNot) {
  sleep(100, 101us);
  EXPECT_FALSE(watch.comes_back());
  sleep(100, 1us);
  sleep(16, 101us);
  EXPECT_TRUE(watch.comes_back());
  sleep(1, 101us);
  EXPECT_FALSE(watch.comes_back());
}

TEST_F(SleepWatchTest, OneThatPostsBeforeItComesBackIsKnownToDoSo) {
  sleep(100, 1us);
  EXPECT_FALSE(watch.posts());
  for (int i = 0; i < 32; ++i) {
    EXPECT_FALSE(watch.posts());
    watch.on_post();
    sleep(1, 1us);
  }
  EXPECT_TRUE(watch.posts());
  sleep(17, 1us);
  EXPECT_FALSE(watch.posts());
}

TEST_F(SleepWatchTest, AbsenceIsCountedOnce) {
  sleep(65, 1us);
  for (int i = 0; i < 16; ++i) {
    watch.on_absence();
    sleep(1, 1h);
  }
  EXPECT_TRUE(watch.comes_back());
  watch.on_absence();
  EXPECT_FALSE(watch.comes_back());
}

}  // namespace
}  // namespace uroce::test
