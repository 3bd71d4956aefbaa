// SPDX-License-Identifier: Apache-2.0
// How long the background thread sleeps while packets are left to somebody.
#include "engine/run/background_sleep.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kPollerTrust;
using engine::kRelaxedWatch;

/// A port that does nothing but wait.
class WaitingPort final : public engine::Port {
 public:
  std::function<void()> during_wait = [] {};
  std::vector<Instant> put_off_to;
  int wakes = 0;

  bool wait(std::optional<Instant>) override {
    during_wait();
    return false;
  }
  void put_off(Instant until) override { put_off_to.push_back(until); }
  void wake() override { ++wakes; }
  std::uint16_t acquire_source_port(const proto::Gid&, std::uint16_t) override { return 0; }
  void release_source_port(const proto::Gid&, std::uint16_t) override {}
  MutBytes tx_frame() override { return {}; }
  void tx_commit(const proto::Transmit&) override {}
  void flush() override {}
  std::size_t exchange(engine::DatagramSink&, std::size_t) override { return 0; }
  void mask_packets(bool) override {}
  void abandon_after_fork() override {}
  engine::PortInfo info() const override { return {}; }
  engine::PortCounters counters() const override { return {}; }
};

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
