// SPDX-License-Identifier: Apache-2.0
// Times on machines where everything takes longer.
#include "engine/run/pace.h"

#include <gtest/gtest.h>

#include "engine/run/crowd_watch.h"
#include "engine/run/poll_watch.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kUsualPacket;
using engine::Pace;

class PaceTest : public testing::Test {
 protected:
  ~PaceTest() override { Pace::forget(); }
  /// Turns of the crank that take so many times as long as they should.
  static void measure(int slower, int turns) {
    for (int i = 0; i < turns; ++i) Pace::on_packets(slower * kUsualPacket);
  }
};

TEST_F(PaceTest, WhereNothingIsSlowTimesAreWhatTheyAre) {
  measure(1, 1000);
  Pace::on_packets(1us);
  EXPECT_EQ(Pace::of(10us), 10us);
}

TEST_F(PaceTest, WhereAllIsSlowTimesAreLonger) {
  measure(4, 1000);
  EXPECT_GE(Pace::of(10us), 39us);
  EXPECT_LE(Pace::of(10us), 40us);
}

TEST_F(PaceTest, OneSlowTurnSaysLittle) {
  measure(1000, 1);
  EXPECT_EQ(Pace::of(160us), 160us);
}

TEST_F(PaceTest, OneQuickTurnSaysThatTheOthersLostTheirProcessor) {
  measure(4, 1000);
  measure(1, 1);
  EXPECT_EQ(Pace::of(10us), 10us);
}

TEST_F(PaceTest, TimesDoNotBecomeLongerForEver) {
  measure(1000, 100'000);
  EXPECT_EQ(Pace::of(10us), engine::kPaceMost * 10us);
}

TEST_F(PaceTest, OnASlowMachineAThreadThatPollsIsKnownByLongerPauses) {
  measure(8, 1000);
  engine::PollWatch watch;
  Instant now = Instant{} + 1s;
  for (std::uint32_t i = 0; i < engine::kPollsToMask; ++i) watch.on_poll(now += 5 * engine::kPollPause);
  EXPECT_TRUE(watch.waits(now));
}

TEST_F(PaceTest, OnASlowMachineAThreadThatIsInterruptedForLongerIsInNoCrowd) {
  for (const int slower : {1, 8}) {
    measure(slower, 1000);
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
    EXPECT_EQ(sleeps, slower == 1);
  }
}

}  // namespace
}  // namespace uroce::test
