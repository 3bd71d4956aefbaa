// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps while packets are left to somebody.
#include "engine/run/background_sleep.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/engine/waiting_port.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kPollerTrust;
using engine::kRelaxedWatch;

class BackgroundSleepTest : public testing::Test {
 protected:
  WaitingPort port;
  engine::BackgroundSleep sleep{port};
  const Instant now = engine::os_now();
};

TEST_F(BackgroundSleepTest, ThePollerPutsOffARelaxedWatchNowAndThen) {
  port.during_wait = [&] {
    for (Duration later = 0us; later < 3 * kPollerTrust; later += 10us) sleep.put_off(now + later);
  };
  sleep.watch_relaxed();
  EXPECT_EQ(port.put_off_to, (std::vector{now + kRelaxedWatch, now + kPollerTrust + kRelaxedWatch,
                                          now + 2 * kPollerTrust + kRelaxedWatch}));
}

TEST_F(BackgroundSleepTest, NothingElseIsPutOff) {
  port.during_wait = [&] { sleep.put_off(now); };
  sleep.watch_for(kPollerTrust);
  sleep.sleep_watching(kPollerTrust);
  sleep.sleep();
  sleep.put_off(now);
  EXPECT_TRUE(port.put_off_to.empty());
}

TEST_F(BackgroundSleepTest, ItIsWokenForWhatComesBeforeTheEndThatWasPutOff) {
  const Instant later = now + 1h;
  port.during_wait = [&] {
    sleep.put_off(later);
    sleep.on_unmask();
    sleep.inform(later + kRelaxedWatch + 1us);
    EXPECT_EQ(port.wakes, 0);
    sleep.inform(later + kRelaxedWatch - 1us);
    EXPECT_EQ(port.wakes, 1);
  };
  sleep.watch_relaxed();
}

}  // namespace
}  // namespace uroce::test
