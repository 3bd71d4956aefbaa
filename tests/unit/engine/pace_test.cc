// SPDX-License-Identifier: Apache-2.0
// Times on processors that are emulated.
#include "engine/run/pace.h"

#include <gtest/gtest.h>

#include "engine/run/crowd_watch.h"
#include "engine/run/poll_watch.h"
#include "tests/support/on_a_processor.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kEmulatedPace;
using engine::Pace;

class PaceTest : public OnAProcessor {};

TEST(Pace, TheProcessorIsAskedBeforeAnythingElse) {
  EXPECT_EQ(Pace::of(10us), Pace::is_emulated() ? kEmulatedPace * 10us : 10us);
}

TEST_F(PaceTest, OnAProcessorTimesAreWhatTheyAre) {
  Pace::assume_emulated(false);
  EXPECT_EQ(Pace::of(10us), 10us);
}

TEST_F(PaceTest, OnAnEmulatedOneTheyAreLonger) {
  Pace::assume_emulated(true);
  EXPECT_EQ(Pace::of(10us), kEmulatedPace * 10us);
}

TEST_F(PaceTest, OnAnEmulatedProcessorAThreadThatPollsIsKnownByLongerPauses) {
  Pace::assume_emulated(true);
  engine::PollWatch watch;
  Instant now = Instant{} + 1s;
  for (std::uint32_t i = 0; i < engine::kPollsToMask; ++i) {
    watch.on_poll(now += 4 * engine::kPollPause, [] { return false; });
  }
  EXPECT_TRUE(watch.waits(now));
}

TEST_F(PaceTest, OnAnEmulatedProcessorAThreadThatIsInterruptedForLongerIsInNoCrowd) {
  for (const bool emulated : {false, true}) {
    Pace::assume_emulated(emulated);
    engine::CrowdWatch watch;
    Instant now = Instant{} + 1s;
    long preemptions = 0;
    const auto poll = [&](Duration pause) {
      watch.on_turn(&now, now += pause, /*was_idle=*/true, [&] { return preemptions; });
      return watch.should_sleep();
    };
    for (Duration polled{}; polled < engine::kAloneFor; polled += 1us) poll(1us);
    ++preemptions;
    bool sleeps = poll(2 * engine::kPreemptedPause);
    for (int i = 0; i < 1000; ++i) sleeps |= poll(1us);
    EXPECT_NE(sleeps, emulated);
  }
}

}  // namespace
}  // namespace uroce::test
