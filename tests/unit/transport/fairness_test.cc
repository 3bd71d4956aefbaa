// SPDX-License-Identifier: Apache-2.0
// Several QPs behind one port: nobody starves.
#include <gmock/gmock.h>

#include "tests/support/pair.h"

namespace uroce::test {
namespace {

TEST(Fairness, QpsThatShareTheWindowAdvanceTogether) {
  // Two pairs' worth of QPs on the same two NICs: the second QPs are made and connected like the first ones.
  Pair pair({.cqe = 4096, .memory = 4 << 20});
  constexpr std::size_t kQps = 4, kMessage = 200'000;
  const std::uint32_t first_a = pair.a.qp->qpn(), first_b = pair.b.qp->qpn();
  std::vector<nic::Qp*> qps{pair.a.qp};
  for (std::size_t i = 1; i < kQps; ++i) {
    for (Side* side : {&pair.a, &pair.b}) {
      nic::QpInit init = side->qp->init();
      side->qp = *side->nic.create_qp(init);
    }
    pair.connect(pair.a, pair.b, 0x100, 0x200);
    pair.connect(pair.b, pair.a, 0x200, 0x100);
    qps.push_back(pair.a.qp);
  }
  ASSERT_EQ(qps.back()->qpn() - first_a, kQps - 1);
  ASSERT_EQ(pair.b.qp->qpn() - first_b, kQps - 1);

  // Each has ten long messages queued; the first to be posted must not be through before the last one has begun.
  for (std::size_t q = 0; q < kQps; ++q) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const nic::Sge sge = pair.a.sge(0, kMessage);
      nic::SendWr w = remote_wr(q * 100 + i, nic::SendOp::kWrite, pair.b, q * kMessage);
      w.sges = {&sge, 1};
      ASSERT_EQ(pair.a.nic.post_send(qps[q], w), 0);
    }
  }
  pair.world.kick(pair.a.node);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), kQps * 10);
  std::array<int, kQps> completed{};
  for (const Completion& c : done) {
    ASSERT_EQ(c.status, WcStatus::kSuccess);
    ++completed[c.wr_id / 100];
    const auto [least, most] = std::minmax_element(completed.begin(), completed.end());
    EXPECT_LE(*most - *least, 2) << "after wr " << c.wr_id;
  }
}

/// A window for 20 packets among 40 QPs. If each sent just what the last ACK made room for, it would have to ask for an
/// ACK of nearly every packet, or wait for one that never comes.
TEST(Fairness, QpsThatShareTheWindowSendInBursts) {
  constexpr std::uint32_t kFull = 2304;  // What a packet of 1024 bytes takes of the window.
  Pair pair({.cqe = 4096, .memory = 1 << 20, .window_bytes = 20 * kFull});
  constexpr std::size_t kQps = 40, kMessage = 16 * 1024;
  std::vector<nic::Qp*> qps;
  for (std::size_t i = 0; i < kQps; ++i) {
    for (Side* side : {&pair.a, &pair.b}) side->qp = *side->nic.create_qp(nic::QpInit(side->qp->init()));
    pair.connect(pair.a, pair.b, 0x100, 0x200);
    pair.connect(pair.b, pair.a, 0x200, 0x100);
    qps.push_back(pair.a.qp);
  }
  std::size_t packets = 0, asked = 0;
  pair.world.set_filter([&](engine::sim::Packet& packet, Instant) {
    if (packet.from == pair.a.node) {
      ++packets;
      asked += proto::parse_packet(packet.bytes)->bth().get<proto::Bth::AckReq>() ? 1 : 0;
    }
    return engine::sim::Verdict::pass();
  });
  const nic::Sge sge = pair.a.sge(0, kMessage);
  for (std::uint64_t i = 0; i < 4; ++i) {
    for (nic::Qp* qp : qps) {
      nic::SendWr w = remote_wr(i, nic::SendOp::kWrite, pair.b, 0);
      w.sges = {&sge, 1};
      ASSERT_EQ(pair.a.nic.post_send(qp, w), 0);
    }
  }
  pair.world.kick(pair.a.node);
  EXPECT_EQ(pair.run(pair.a).size(), kQps * 4);
  EXPECT_EQ(packets, kQps * 4 * 16);
  EXPECT_LE(asked, packets / 4);
}

// The first packet of a message goes out unasked, and the rest waits for a window that others have filled with packets
// that get lost. Nobody owes an ACK then: no retry is spent on that.
TEST(Fairness, WaitingForTheWindowCostsNoRetry) {
  constexpr std::uint32_t kSmall = 768, kFull = 2304;  // What packets of 0 and of 1024 bytes take of the window.
  Pair pair({.timeout = 8, .retry_cnt = 0, .window_bytes = 15 * kSmall + kFull + 1});
  nic::Qp* const qp = pair.a.qp;
  const std::uint32_t peer = pair.b.qp->qpn();
  std::vector<nic::Qp*> others;
  pair.o.timeout = 14;
  for (int i = 0; i < 6; ++i) {
    for (Side* side : {&pair.a, &pair.b}) side->qp = *side->nic.create_qp(nic::QpInit(side->qp->init()));
    pair.connect(pair.a, pair.b, 0x100, 0x200);
    pair.connect(pair.b, pair.a, 0x200, 0x100);
    others.push_back(pair.a.qp);
  }
  pair.world.set_filter([&](engine::sim::Packet& packet, Instant) {
    const bool to_b = packet.from == pair.a.node;
    return to_b && proto::parse_packet(packet.bytes)->dest_qp() != peer ? engine::sim::Verdict::drop()
                                                                        : engine::sim::Verdict::pass();
  });
  const auto post = [&](nic::Qp* to, std::uint64_t id, std::size_t length) {
    const nic::Sge sge = pair.a.sge(0, length);
    nic::SendWr w = remote_wr(id, nic::SendOp::kWrite, pair.b, 0, id == 15 ? nic::kSignaled : 0u);
    w.sges = {&sge, 1};
    ASSERT_EQ(pair.a.nic.post_send(to, w), 0);
  };
  for (std::uint64_t id = 0; id < 15; ++id) post(qp, id, 0);  // With the first packet of the next one: a turn.
  post(qp, 15, 3000);
  for (nic::Qp* other : others) post(other, 100, 5000);
  pair.world.kick(pair.a.node);
  pair.world.run_for(40ms);
  const auto done = pair.a.poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_GT(pair.a.nic.counters().sent_pkts, 18u);
  EXPECT_EQ(qp->state(), nic::QpState::kRts);
}

}  // namespace
}  // namespace uroce::test
