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

}  // namespace
}  // namespace uroce::test
