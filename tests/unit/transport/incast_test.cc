// SPDX-License-Identifier: Apache-2.0
// Many senders, one receiver whose buffer is small: no storm, and everybody gets a share.
#include <deque>
#include <vector>

#include "tests/support/pair.h"

namespace uroce::test {
namespace {

constexpr std::size_t kMessage = 256 * 1024;
constexpr Duration kPerPacket = 3us;  ///< That the receiver takes for one.
constexpr int kBuffer = 25;           ///< Packets of 4 KiB that net.core.rmem_default holds.

/// Senders with a QP each to one receiver, which reads its packets one by one from a buffer of kBuffer. Between them is
/// a path that takes `path` in each direction.
class Incast : public testing::Test {
 protected:
  /// `per_packet_sent`: that the senders together take for one.
  explicit Incast(std::size_t count = 8, Duration path = {}, Duration per_packet_sent = {})
      : posted(count), done(count) {
    receiver.node = world.attach(receiver.nic, {receiver.gid});
    for (std::size_t i = 0; i < posted.size(); ++i) {
      const auto n = static_cast<std::uint8_t>(10 + i);
      Side& side = senders.emplace_back(Gid::from_v4(10, 0, 0, n), 0x10000000, options);
      side.node = world.attach(side.nic, {side.gid});
      if (i != 0) receiver.qp = *receiver.nic.create_qp(nic::QpInit(receiver.qp->init()));
      side.bring_up(connected_attr(options, side, receiver, 0x100, 0x100));
      receiver.bring_up(connected_attr(options, receiver, side, 0x100, 0x100));
    }
    world.set_filter([this, path, per_packet_sent](engine::sim::Packet& packet, Instant now) {
      if (packet.to != receiver.node) return engine::sim::Verdict::delay(path);
      sent_at = std::max(sent_at, now) + per_packet_sent;
      free_at = std::max(free_at, sent_at);
      if (free_at - sent_at > kBuffer * kPerPacket) return engine::sim::Verdict::drop();
      free_at += kPerPacket;
      return engine::sim::Verdict::delay(free_at - now + path);
    });
  }
  /// Everybody sends for `time`, without a pause.
  void run(Duration time) {
    for (const Instant end = world.now() + time; world.now() < end; world.run_for(100us)) {
      for (std::size_t i = 0; i < posted.size(); ++i) {
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
  std::vector<int> posted;
  std::vector<double> done;
  Instant free_at{}, sent_at{};
};

TEST_F(Incast, IsNoStormAndFair) {
  run(300ms);  // In which they find their shares.
  done.assign(done.size(), 0);
  const std::uint64_t sent_before = sent(), repeated_before = sum(&nic::Counters::retransmitted_pkts);
  run(500ms);
  const double packets = static_cast<double>(sent() - sent_before);
  const double repeated = static_cast<double>(sum(&nic::Counters::retransmitted_pkts) - repeated_before);
  EXPECT_LT(repeated / packets, 0.02);
  EXPECT_GT(packets, 0.9 * (500ms / kPerPacket)) << "and the receiver is busy";
  double total = 0, squares = 0;
  for (const double n : done) total += n, squares += n * n;
  EXPECT_GE(total * total / (static_cast<double>(done.size()) * squares), 0.9) << "Jain's index";
}

class FarReceiver : public Incast {
 protected:
  FarReceiver() : Incast(1, 500us, 2us) {}
};

/// The path is long, but what waits, waits in the small buffer.
TEST_F(FarReceiver, WithASmallBufferLosesLittle) {
  run(1s);
  const double packets = static_cast<double>(sent());
  EXPECT_LT(static_cast<double>(sum(&nic::Counters::retransmitted_pkts)) / packets, 0.01);
  EXPECT_GT(packets, 0.5 * (1s / kPerPacket)) << "half: each loss halves what the path is used to";
}

}  // namespace
}  // namespace uroce::test
