// SPDX-License-Identifier: Apache-2.0
// When the background thread is in the program's way, and that it then goes elsewhere.
#include "engine/run/place_watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "engine/os/processors.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

class PlaceWatchTest : public testing::Test {
 protected:
  PlaceWatchTest() { watch.on_post(kProgram); }
  /// Wakes up so many times, every 50 us, in which the program runs for `ran`. Returns how often it should have moved.
  int wake(int times, int processor, std::size_t packets = 1, Duration ran = 50us) {
    int moves = 0;
    for (int i = 0; i < times; ++i) {
      now += 50us;
      program_ran += ran;
      if (watch.is_in_the_way(now, processor, packets, [this] { return program_ran; })) ++moves;
    }
    return moves;
  }
  static constexpr int kProgram = 3;

  engine::PlaceWatch watch;
  Instant now{1h};
  Duration program_ran{};
};

TEST_F(PlaceWatchTest, OnTheProcessorOfAProgramThatRunsItIsInTheWay) {
  EXPECT_EQ(wake(engine::kWakesInTheWay - 1, kProgram), 0);
  EXPECT_EQ(wake(1, kProgram), 1);
}

TEST_F(PlaceWatchTest, ItMovesSeldom) {
  EXPECT_EQ(wake(100, kProgram), 1);
  now += 10ms;
  EXPECT_EQ(wake(100, kProgram), 1);
}

TEST_F(PlaceWatchTest, ElsewhereItIsNot) {
  EXPECT_EQ(wake(100, kProgram + 1), 0);
  EXPECT_EQ(wake(engine::kWakesInTheWay - 1, kProgram), 0);
  EXPECT_EQ(wake(1, kProgram + 1), 0) << "The row ends.";
  EXPECT_EQ(wake(engine::kWakesInTheWay - 1, kProgram), 0);
}

TEST_F(PlaceWatchTest, AProgramThatSleepsIsNotDisturbed) { EXPECT_EQ(wake(100, kProgram, 1, 20us), 0); }

TEST_F(PlaceWatchTest, AStreamNeedsAProcessorAnyway) { EXPECT_EQ(wake(100, kProgram, engine::kStreamPackets), 0); }

TEST_F(PlaceWatchTest, AWakeUpForNothingDoesNotCount) {
  EXPECT_EQ(wake(100, kProgram, 0), 0);
  EXPECT_EQ(wake(engine::kWakesInTheWay - 1, kProgram), 0);
  EXPECT_EQ(wake(5, kProgram + 1, 0), 0);
  EXPECT_EQ(wake(1, kProgram), 1);
}

TEST(Processors, AThreadLeavesOneAndMayComeBack) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "There is one processor only.";
  std::thread([&] {
    const int processor = ::sched_getcpu();
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(processor, &here);
    int moved = 0;
    constexpr int kRounds = 10;
    for (int i = 0; i < kRounds; ++i) {
      // So that nothing but the call moves it.
      ASSERT_EQ(::sched_setaffinity(0, sizeof here, &here), 0);
      engine::leave_processor(processor);
      EXPECT_EQ(::sched_getcpu(), processor) << "There was no other.";
      ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
      engine::leave_processor(processor);
      if (::sched_getcpu() != processor) ++moved;
    }
    EXPECT_GT(moved, kRounds / 2) << "The kernel seldom moves it back, or by itself, in between.";
    cpu_set_t after;
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(Processors, ShortSlicesLeavePolicyAndNiceAsTheyWere) {
  std::thread([] {
    ASSERT_NE(::nice(5), -1);
    engine::ask_for_short_slices();
    EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), 5);
    std::ifstream file("/proc/thread-self/sched");
    for (std::string line; std::getline(file, line);) {
      EXPECT_TRUE(!line.starts_with("se.slice") || line.ends_with(" 100000")) << line;
    }
  }).join();
}

}  // namespace
}  // namespace uroce::test
