// SPDX-License-Identifier: Apache-2.0
// Seeded chaos for UC and UD: what arrives is whole, was sent, and comes in order; the sender hears of nothing.
#include <algorithm>

#include "engine/sim/world.h"
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using nic::QpState;
using nic::QpType;
using nic::SendOp;

constexpr std::size_t kSlot = 4096, kMessages = 80;
constexpr std::uint32_t kGrh = 40, kQkey = 0x1234;

struct Shape {
  QpType type;
  std::uint64_t seed;
  bool doubled;  ///< The network doubles and reorders packets as well: then messages may come twice, and late.
};

/// Message `i`: every byte tells which message it is of, and where.
std::uint8_t byte_of(std::size_t i, std::size_t at) { return static_cast<std::uint8_t>(i * 31 + at * 7 + (at >> 8)); }

class UnackedChaos : public testing::TestWithParam<Shape> {
 protected:
  bool ud() const { return GetParam().type == QpType::kUd; }

  void connect(Side& local, const Side& remote) {
    nic::QpAttr attr;
    attr.access = nic::kRemoteWrite;
    attr.path.source = local.gid;
    attr.path.destination = remote.gid;
    attr.path_mtu = 2;
    attr.dest_qpn = remote.qp->qpn();
    attr.qkey = kQkey;
    attr.rq_psn = attr.sq_psn = Psn{0xFFFFE0};
    local.bring_up(attr);
  }
};

TEST_P(UnackedChaos, WhatArrivesIsWholeAndInOrder) {
  PairOptions options{.max_wr = 2 * kMessages, .type = GetParam().type};
  options.world.seed = GetParam().seed;
  options.world.link.impairments = {.loss = 0.05, .corrupt = 0.02, .burst = 0.01};
  if (GetParam().doubled) {
    options.world.link.impairments.duplicate = 0.03;
    options.world.link.impairments.reorder = 0.05;
  }
  engine::sim::World world(options.world);
  Side a(Gid::from_v4(10, 0, 0, 1), 0x10000000, options), b(Gid::from_v4(10, 0, 0, 2), 0x20000000, options);
  a.node = world.attach(a.nic, {a.gid});
  b.node = world.attach(b.nic, {b.gid});
  connect(a, b);
  connect(b, a);
  engine::sim::Random random(GetParam().seed);

  // Fewer receives than messages. Between them lies what nobody may touch.
  const std::size_t receives = kMessages - random.below(20);
  for (std::size_t i = 0; i < receives; ++i) {
    const nic::Sge sge[] = {b.sge(2 * i * kSlot, kSlot)};
    ASSERT_EQ(b.nic.post_recv(b.qp, {i, sge}), 0);
  }
  std::vector<std::size_t> sizes;
  const nic::UdTarget target{.path = {.source = a.gid, .destination = b.gid}, .qpn = b.qp->qpn(), .qkey = kQkey};
  for (std::size_t i = 0; i < kMessages; ++i) {
    sizes.push_back(random.below(ud() ? kSlot - kGrh : kSlot));
    for (std::size_t at = 0; at < sizes[i]; ++at) a.memory[i * kSlot + at] = byte_of(i, at);
    nic::SendWr wr;
    wr.wr_id = i;
    wr.op = SendOp::kSendImm;
    wr.imm = static_cast<std::uint32_t>(i);
    wr.flags = nic::kSignaled;
    wr.target = &target;
    const nic::Sge sge[] = {a.sge(i * kSlot, sizes[i])};
    wr.sges = sge;
    ASSERT_EQ(a.nic.post_send(a.qp, wr), 0);
    if (random.below(3) == 0) world.kick(a.node);
  }
  const auto before = b.memory;
  world.kick(a.node);
  ASSERT_EQ(world.run_idle(), engine::sim::Outcome::kDone);

  const auto sent = a.poll();
  ASSERT_EQ(sent.size(), kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, WcStatus::kSuccess);
  }
  const auto got = b.poll();
  EXPECT_GT(got.size(), kMessages / 4) << "nearly nothing arrives";
  const std::uint32_t head = ud() ? kGrh : 0;
  std::uint32_t last = 0;
  for (std::size_t n = 0; n < got.size(); ++n) {
    const Completion& c = got[n];
    ASSERT_EQ(c.status, WcStatus::kSuccess);
    EXPECT_EQ(c.wr_id, n) << "receives are taken in order";
    ASSERT_LT(c.imm, kMessages);
    if (!GetParam().doubled && n != 0) {
      EXPECT_GT(c.imm, last);
    }
    last = c.imm;
    ASSERT_EQ(c.byte_len, head + sizes[c.imm]);
    const std::size_t base = 2 * c.wr_id * kSlot;
    for (std::size_t at = 0; at < sizes[c.imm]; ++at) {
      ASSERT_EQ(b.memory[base + head + at], byte_of(c.imm, at)) << "message " << c.imm << " at " << at;
    }
  }
  for (std::size_t slot = 1; slot < 2 * kMessages; slot += 2) {
    const auto at = static_cast<std::ptrdiff_t>(slot * kSlot);
    EXPECT_TRUE(std::equal(before.begin() + at, before.begin() + at + kSlot, b.memory.begin() + at)) << slot;
  }
  EXPECT_EQ(b.qp->state(), QpState::kRts);
  EXPECT_EQ(b.nic.counters().sent_pkts, 0u) << "an answer";
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (const bool doubled : {false, true}) {
      all.push_back({QpType::kUc, seed, doubled});
      all.push_back({QpType::kUd, seed, doubled});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Seeds, UnackedChaos, testing::ValuesIn(shapes()), [](const auto& test) {
  return std::string(test.param.type == QpType::kUc ? "Uc" : "Ud") + (test.param.doubled ? "Doubled" : "") +
         std::to_string(test.param.seed);
});

}  // namespace
}  // namespace uroce::test
