// SPDX-License-Identifier: Apache-2.0
// Times on processors that are emulated.
#include "engine/run/pace.h"

#include <gtest/gtest.h>

#include "engine/run/crowd_watch.h"
#include "engine/run/poll_watch.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kEmulatedPace;
using engine::kUsualLoads;
using engine::Pace;

class PaceTest : public testing::Test {
 protected:
  ~PaceTest() override { Pace::on_loads(Pace::measure_loads()); }
};

TEST_F(PaceTest, OnAProcessorTimesAreWhatTheyAre) {
  Pace::on_loads(kUsualLoads);
  EXPECT_EQ(Pace::of(10us), 10us);
}

TEST_F(PaceTest, OnAnEmulatedOneTheyAreLonger) {
  Pace::on_loads(kUsualLoads + 1ns);
  EXPECT_EQ(Pace::of(10us), kEmulatedPace * 10us);
}

TEST_F(PaceTest, ItIsMeasuredWhenTheLibraryIsLoaded) {
  const Duration took = Pace::measure_loads();
  EXPECT_GT(took, 0ns);
  EXPECT_LT(took, 100us) << "nobody waits for it";
}

TEST_F(PaceTest, OnAnEmulatedProcessorAThreadThatPollsIsKnownByLongerPauses) {
  Pace::on_loads(kUsualLoads + 1ns);
  engine::PollWatch watch;
  Instant now = Instant{} + 1s;
  for (std::uint32_t i = 0; i < engine::kPollsToMask; ++i)
    watch.on_poll(now += 4 * engine::kPollPause, [] { return false; });
  EXPECT_TRUE(watch.waits(now));
}

TEST_F(PaceTest, OnAnEmulatedProcessorAThreadThatIsInterruptedForLongerIsInNoCrowd) {
  for (const Duration took : {kUsualLoads, kUsualLoads + 1ns}) {
    Pace::on_loads(took);
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
    EXPECT_EQ(sleeps, took == kUsualLoads);
  }
}

}  // namespace
}  // namespace uroce::test
