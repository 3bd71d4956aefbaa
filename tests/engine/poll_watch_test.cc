#include "engine/poll_watch.h"

#include <gtest/gtest.h>

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1000s};

/// Polls `times` with `gap` between; returns the time of the last poll.
Instant poll(PollWatch& watch, int times, Duration gap, Instant from = kStart) {
  Instant now = from;
  for (int i = 0; i < times; ++i) watch.on_poll(now += gap);
  return now;
}

TEST(PollWatch, TrustsAThreadThatPollsWithoutPause) {
  PollWatch watch;
  EXPECT_LT(watch.trusted_until(), kStart);
  const Instant last = poll(watch, 100, 1us);
  EXPECT_GT(watch.trusted_until(), last);
  EXPECT_LE(watch.trusted_until(), last + 1ms);
}

TEST(PollWatch, DoesNotTrustAThreadThatPollsNowAndThen) {
  PollWatch watch;
  Instant now = kStart;
  for (int i = 0; i < 100; ++i) {
    now = poll(watch, 2, 1us, now + 1ms);  // Takes a completion, finds nothing more, goes to sleep.
    EXPECT_LT(watch.trusted_until(), now);
  }
}

TEST(PollWatch, APauseOrAWordEndsTheTrust) {
  PollWatch watch;
  Instant now = poll(watch, 100, 1us);
  now = poll(watch, 1, 10ms, now);
  EXPECT_LT(watch.trusted_until(), now);
  now = poll(watch, 100, 1us, now);
  EXPECT_GT(watch.trusted_until(), now);
  watch.on_stop();
  EXPECT_LT(watch.trusted_until(), now);
}

}  // namespace
}  // namespace uroce::engine
