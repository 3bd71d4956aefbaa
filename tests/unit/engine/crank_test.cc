// SPDX-License-Identifier: Apache-2.0
// One turn of the crank, over a port that takes its time.
#include "engine/run/crank.h"

#include <algorithm>
#include <array>

#include "tests/support/echo_nic.h"
#include "tests/support/port_fixture.h"
#include "tests/unit/engine/waiting_port.h"

namespace uroce::test {
namespace {

using engine::os_now;

/// A port for which sending takes a while; then one packet is there.
class SlowPort final : public WaitingPort {
 public:
  Instant sent{};

  std::size_t exchange(engine::DatagramSink& sink, std::size_t) override {
    const Instant end = os_now() + 50us;
    while (os_now() < end) continue;
    sent = os_now();
    const std::array<std::uint8_t, 64> packet{};
    sink.on_datagram({{}, packet});
    return 1;
  }
};

// An RNR wait begins when the NAK is here.
TEST(Crank, PacketsArriveAfterWhatWasSentBeforeThem) {
  EchoNic nic({});
  SlowPort port;
  const engine::Progress progress = turn_crank(nic, port, os_now(), engine::Answers::kNextTurn, [] {});
  EXPECT_GE(nic.last_activity, port.sent);
  EXPECT_FALSE(progress.timed);
}

/// A NIC in a program that has taken all the memory that it may have.
struct ShortNic final {
  void on_datagram(const proto::Datagram&, Instant) { throw std::bad_alloc(); }
  void on_timeout(Instant) { throw std::bad_alloc(); }
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes) { return std::nullopt; }
  std::optional<Instant> next_deadline() const { return Instant{}; }
};

TEST(Crank, WhatFindsNoMemoryIsAsGoodAsLost) {
  ShortNic nic;
  SlowPort port;
  const engine::Progress progress = turn_crank(nic, port, os_now(), engine::Answers::kAtOnce, [] {});
  EXPECT_EQ(progress.received, 1u);
  EXPECT_TRUE(progress.timed);
}

TEST(Crank, TimersThatAreDueWhenPacketsArriveAreNotLeftToTheNextTurn) {
  EchoNic nic({});
  SlowPort port;
  const Instant begin = os_now();
  nic.set_timer(begin + 10us);
  const engine::Progress progress = turn_crank(nic, port, begin, engine::Answers::kNextTurn, [] {});
  EXPECT_EQ(nic.timeouts, 1);
  EXPECT_TRUE(progress.timed);
}

/// Where so many packets wait to be read.
class FullPort final : public WaitingPort {
 public:
  explicit FullPort(std::size_t packets) : packets_(packets) {}
  std::size_t exchange(engine::DatagramSink& sink, std::size_t most) override {
    const std::size_t count = std::min(packets_, most);
    packets_ -= count;
    const std::array<std::uint8_t, 64> packet{};
    for (std::size_t i = 0; i < count; ++i) sink.on_datagram({{}, packet});
    return count;
  }

 private:
  std::size_t packets_;
};

/// Packets that were read before the timers of a process that was stopped ran.
std::size_t read_before_late_timers(std::size_t waiting, Duration late) {
  EchoNic nic({});
  nic.answers = false;
  nic.set_timer(os_now() - late);
  FullPort port(waiting);
  turn_crank(nic, port, os_now(), engine::Answers::kNextTurn, [] {});
  EXPECT_EQ(nic.timeouts, 1);
  return nic.received.size();
}

// Answers are among them.
TEST(Crank, AfterAPausePacketsComeBeforeTimers) {
  EXPECT_EQ(read_before_late_timers(200, 1s), 200u);
  EXPECT_EQ(read_before_late_timers(1'000'000, 1s), (1u + engine::kBurstsWhenLate) * engine::kCrankBurst);
}
// What a fault holds back is due so early when the NIC is closed.
TEST(Crank, TheEarliestDeadlineOfAllIsDue) {
  EchoNic nic({});
  nic.set_timer(Instant::min());
  FullPort port(0);
  EXPECT_TRUE(turn_crank(nic, port, os_now(), engine::Answers::kNextTurn, [] {}).timed);
  EXPECT_EQ(nic.timeouts, 1);
}
TEST(Crank, WithoutAPauseABurstIsEnough) { EXPECT_EQ(read_before_late_timers(200, {}), engine::kCrankBurst); }

}  // namespace
}  // namespace uroce::test
