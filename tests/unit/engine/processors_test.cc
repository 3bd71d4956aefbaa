// SPDX-License-Identifier: Apache-2.0
#include "engine/os/processors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/os/os_clock.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

TEST(OneProcessor, IsLookedForAgainNowAndThen) {
  if (has_one_processor()) GTEST_SKIP() << "There is no other.";
  cpu_set_t all, one;
  CPU_ZERO(&all);
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  OneProcessor watch;
  EXPECT_FALSE(watch);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const Instant now = os_now();
  watch.look(now);
  EXPECT_FALSE(watch) << "whose they are is not known yet";
  watch.on_background(::gettid());
  watch.look(now);
  EXPECT_TRUE(watch);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  watch.look(now + 49ms);
  EXPECT_TRUE(watch);
  watch.look(now + 50ms);
  EXPECT_FALSE(watch);
}

}  // namespace
}  // namespace uroce::engine
