// SPDX-License-Identifier: Apache-2.0
// One turn of the crank, over a port that takes its time.
#include "engine/run/crank.h"

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

}  // namespace
}  // namespace uroce::test
