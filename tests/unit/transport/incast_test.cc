// SPDX-License-Identifier: Apache-2.0
// Many senders, one receiver whose buffer is small: no storm, and everybody gets a share.
#include <deque>

#include "tests/support/pair.h"

namespace uroce::test {
namespace {

constexpr std::size_t kSenders = 8, kMessage = 256 * 1024;
constexpr Duration kPerPacket = 3us;  ///< That the receiver takes for one.
constexpr int kBuffer = 25;           ///< Packets of 4 KiB that net.core.rmem_default holds.

/// Senders with a QP each to one receiver, which reads its packets one by one from a buffer of kBuffer.
class Incast : public testing::Test {
 protected:
  Incast() {
    receiver.node = world.attach(receiver.nic, {receiver.gid});
    for (std::size_t i = 0; i < kSenders; ++i) {
      const auto n = static_cast<std::uint8_t>(10 + i);
      Side& side = senders.emplace_back(Gid::from_v4(10, 0, 0, n), 0x10000000, options);
      side.node = world.attach(side.nic, {side.gid});
      if (i != 0) receiver.qp = *receiver.nic.create_qp(nic::QpInit(receiver.qp->init()));
      side.bring_up(connected_attr(options, side, receiver, 0x100, 0x100));
      receiver.bring_up(connected_attr(options, receiver, side, 0x100, 0x100));
    }
    world.set_filter([this](engine::sim::Packet& packet, Instant now) {
      if (packet.to != receiver.node) return engine::sim::Verdict::pass();
      free_at = std::max(free_at, now);
      if (free_at - now > kBuffer * kPerPacket) return engine::sim::Verdict::drop();
      free_at += kPerPacket;
      return engine::sim::Verdict::delay(free_at - now);
    });
  }
  /// Everybody sends for `time`, without a pause.
  void run(Duration time) {
    for (const Instant end = world.now() + time; world.now() < end; world.run_for(100us)) {
      for (std::size_t i = 0; i < kSenders; ++i) {
        for (const Completion& c : senders[i].poll()) {
          ASSERT_EQ(c.status, WcStatus::kSuccess);
          --posted[i];
          ++done[i];
        }
        for (; posted[i] < 4; ++posted[i]) post(senders[i]);
      }
    }
  }
  void post(Side& side) {
    const nic::Sge sge = side.sge(0, kMessage);
    nic::SendWr wr = remote_wr(1, nic::SendOp::kWrite, receiver, 0);
    wr.sges = {&sge, 1};
    ASSERT_EQ(side.nic.post_send(side.qp, wr), 0);
    world.kick(side.node);
  }
  std::uint64_t sent() const { return sum(&nic::Counters::sent_pkts); }
  std::uint64_t sum(std::uint64_t nic::Counters::*counter) const {
    std::uint64_t total = 0;
    for (const Side& side : senders) total += side.nic.counters().*counter;
    return total;
  }

  PairOptions options{.mtu_code = 5};
  engine::sim::World world;
  Side receiver{Gid::from_v4(10, 0, 0, 1), 0x20000000, options};
  std::deque<Side> senders;
  std::array<int, kSenders> posted{};
  std::array<double, kSenders> done{};
  Instant free_at{};
};

TEST_F(Incast, IsNoStormAndFair) {
  run(300ms);  // In which they find their shares.
  done = {};
  const std::uint64_t sent_before = sent(), repeated_before = sum(&nic::Counters::retransmitted_pkts);
  run(500ms);
  const double packets = static_cast<double>(sent() - sent_before);
  const double repeated = static_cast<double>(sum(&nic::Counters::retransmitted_pkts) - repeated_before);
  EXPECT_LT(repeated / packets, 0.02);
  EXPECT_GT(packets, 0.9 * (500ms / kPerPacket)) << "and the receiver is busy";
  double total = 0, squares = 0;
  for (const double n : done) total += n, squares += n * n;
  EXPECT_GE(total * total / (kSenders * squares), 0.9) << "Jain's index";
}

}  // namespace
}  // namespace uroce::test
