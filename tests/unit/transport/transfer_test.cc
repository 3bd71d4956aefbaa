// SPDX-License-Identifier: Apache-2.0
// Every operation end to end on a wire without faults.
#include <gmock/gmock.h>

#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using nic::SendOp;
using proto::Opcode;

/// (MTU code, message size): sizes around 0, 1 and multiples of the MTU.
class Sizes : public testing::TestWithParam<std::tuple<std::uint32_t, std::size_t>> {
 protected:
  Sizes() : pair({.mtu_code = std::get<0>(GetParam())}), size(std::get<1>(GetParam())) {}
  Pair pair;
  std::size_t size;
};

constexpr std::size_t kSource = 64 * 1024, kTarget = 512 * 1024;

std::vector<std::uint8_t> slice(const Side& side, std::size_t offset, std::size_t size) {
  const auto begin = side.memory.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

/// Every byte but [offset, offset + size) is as before.
void expect_untouched_around(const Side& side, const Memory& before, std::size_t offset, std::size_t size) {
  Memory now = side.memory;
  std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(offset), size,
              now.begin() + static_cast<std::ptrdiff_t>(offset));
  EXPECT_TRUE(now == before) << "bytes outside of the target changed";
}

TEST_P(Sizes, Send) {
  const auto before = pair.b.memory;
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(kTarget, size)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(kSource, size)}), 0);
  const auto sent = pair.run(pair.a);
  const auto received = pair.b.poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  EXPECT_EQ(sent[0].wr_id, 1u);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 7u);
  EXPECT_EQ(received[0].opcode, nic::WcOpcode::kRecv);
  EXPECT_EQ(received[0].byte_len, size);
  EXPECT_EQ(slice(pair.b, kTarget, size), slice(pair.a, kSource, size));
  expect_untouched_around(pair.b, before, kTarget, size);
}

TEST_P(Sizes, WriteWithImmediate) {
  const auto before = pair.b.memory;
  ASSERT_EQ(pair.receive(pair.b, 7, {}), 0);
  auto w = remote_wr(1, SendOp::kWriteImm, pair.b, kTarget);
  w.imm = 0xCAFEF00D;
  ASSERT_EQ(pair.send(pair.a, w, {pair.a.sge(kSource, size)}), 0);
  ASSERT_EQ(pair.run(pair.a).size(), 1u);
  const auto received = pair.b.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].opcode, nic::WcOpcode::kRecvWithImm);
  EXPECT_EQ(received[0].imm, 0xCAFEF00D);
  EXPECT_EQ(received[0].flags, nic::kWcWithImm);
  EXPECT_EQ(received[0].byte_len, size);
  EXPECT_EQ(slice(pair.b, kTarget, size), slice(pair.a, kSource, size));
  expect_untouched_around(pair.b, before, kTarget, size);
}

TEST_P(Sizes, Write) {
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, kTarget), {pair.a.sge(kSource, size)}), 0);
  const auto sent = pair.run(pair.a);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  EXPECT_EQ(sent[0].opcode, nic::WcOpcode::kWrite);
  EXPECT_EQ(slice(pair.b, kTarget, size), slice(pair.a, kSource, size));
  EXPECT_TRUE(pair.b.poll().empty());
}

TEST_P(Sizes, Read) {
  const auto before = pair.a.memory;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, kSource), {pair.a.sge(kTarget, size)}), 0);
  const auto sent = pair.run(pair.a);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  EXPECT_EQ(sent[0].byte_len, size);
  EXPECT_EQ(slice(pair.a, kTarget, size), slice(pair.b, kSource, size));
  expect_untouched_around(pair.a, before, kTarget, size);
}

INSTANTIATE_TEST_SUITE_P(All, Sizes,
                         testing::Combine(testing::Values(1u, 2u, 3u, 4u, 5u),
                                          testing::Values(0u, 1u, 3u, 255u, 256u, 257u, 1023u, 1024u, 1025u, 4095u,
                                                          4096u, 4097u, 65536u, 65537u, 300001u)));

TEST(Transfer, SixteenSgesGatherAndScatter) {
  Pair pair;
  std::vector<nic::Sge> from, to;
  for (std::size_t i = 0; i < 16; ++i) {
    from.push_back(pair.a.sge(i * 1000, 100 + i));
    to.push_back(pair.b.sge(kTarget + i * 500, 108));  // Other cuts than the sender's; and some room to spare.
  }
  ASSERT_EQ(pair.receive(pair.b, 7, to), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), from), 0);
  pair.run(pair.a);
  std::vector<std::uint8_t> expected, got;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto f = slice(pair.a, i * 1000, 100 + i), t = slice(pair.b, kTarget + i * 500, 108);
    expected.insert(expected.end(), f.begin(), f.end());
    got.insert(got.end(), t.begin(), t.end());
  }
  const auto received = pair.b.poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_len, expected.size());
  ASSERT_GE(got.size(), expected.size());
  got.resize(expected.size());
  EXPECT_EQ(got, expected);
}

TEST(Transfer, InlineDataIsCopiedAtThePost) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(kTarget, 200)}), 0);
  std::vector<std::uint8_t> data(200, 0xAB);
  nic::Sge sge{std::bit_cast<std::uint64_t>(data.data()), 200, 0xBAD};  // Inline needs no key.
  nic::SendWr w = wr(1, SendOp::kSend, nic::kSignaled | nic::kInline);
  w.sges = {&sge, 1};
  ASSERT_EQ(pair.a.nic.post_send(pair.a.qp, w), 0);
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  pair.world.kick(pair.a.node);
  pair.run(pair.a);
  EXPECT_EQ(slice(pair.b, kTarget, 200), std::vector<std::uint8_t>(200, 0xAB));
}

TEST(Transfer, AtomicsReturnTheOldValue) {
  Pair pair;
  const std::uint64_t start = 40;
  std::memcpy(pair.b.memory.data() + 800, &start, 8);
  auto add = remote_wr(1, SendOp::kFetchAdd, pair.b, 800);
  add.compare_add = 2;
  auto hit = remote_wr(2, SendOp::kCompareSwap, pair.b, 800);
  hit.compare_add = 42;
  hit.swap = 7;
  auto miss = remote_wr(3, SendOp::kCompareSwap, pair.b, 800);
  miss.compare_add = 42;
  miss.swap = 9;
  ASSERT_EQ(pair.send(pair.a, add, {pair.a.sge(0, 8)}), 0);
  ASSERT_EQ(pair.send(pair.a, hit, {pair.a.sge(8, 8)}), 0);
  ASSERT_EQ(pair.send(pair.a, miss, {pair.a.sge(16, 8)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].opcode, nic::WcOpcode::kFetchAdd);
  EXPECT_EQ(done[0].byte_len, 8u);
  std::array<std::uint64_t, 3> old{};
  std::memcpy(old.data(), pair.a.memory.data(), 24);
  EXPECT_THAT(old, testing::ElementsAre(40, 42, 7));
  std::uint64_t final = 0;
  std::memcpy(&final, pair.b.memory.data() + 800, 8);
  EXPECT_EQ(final, 7u);
}

TEST(Transfer, FenceWaitsForTheRead) {
  Pair pair;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, kSource), {pair.a.sge(0, 5000)}), 0);
  ASSERT_EQ(pair.send(pair.a, remote_wr(2, SendOp::kWrite, pair.b, kTarget, nic::kSignaled | nic::kFence),
                      {pair.a.sge(0, 5000)}),
            0);
  pair.run(pair.a);
  EXPECT_EQ(slice(pair.b, kTarget, 5000), slice(pair.b, kSource, 5000)) << "the WRITE took what the READ brought";
}

TEST(Transfer, MaxRdAtomicBoundsTheReadsInFlight) {
  Pair pair({.rd_atomic = 2});
  int outstanding = 0, most = 0;
  pair.world.set_filter([&](engine::sim::Packet& p, Instant) {
    const auto parsed = proto::parse_packet(p.bytes);
    if (parsed->op().kind == proto::Kind::kReadRequest) most = std::max(most, ++outstanding);
    if (parsed->op().kind == proto::Kind::kReadResponse && parsed->op().ends()) --outstanding;
    return engine::sim::Verdict::pass();
  });
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kRead, pair.b, 0), {pair.a.sge(kTarget + i * 100, 100)}), 0);
  }
  EXPECT_EQ(pair.run(pair.a).size(), 10u);
  EXPECT_EQ(most, 2);
}

TEST(Transfer, LongReadsAreIssuedInPieces) {
  Pair pair;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, 0), {pair.a.sge(kTarget, 150'000)}), 0);
  ASSERT_EQ(pair.run(pair.a).size(), 1u);
  std::vector<std::uint32_t> lengths;
  for (const Seen& s : pair.seen_from('a', Opcode::kRcReadRequest)) lengths.push_back(s.read_length);
  EXPECT_THAT(lengths, testing::ElementsAre(65536, 65536, 150'000 - 2 * 65536));
}

TEST(Transfer, UnsignalledWrsGiveNoCompletionAndFreeTheirSlots) {
  Pair pair({.max_wr = 4});
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, kTarget, 0), {pair.a.sge(0, 8)}), 0) << i;
    EXPECT_TRUE(pair.run(pair.a).empty());
  }
}

class SendQueuePlaces : public testing::TestWithParam<nic::QpType> {
 protected:
  Errno write(Pair& pair, std::uint32_t flags = nic::kSignaled) {
    return pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, kTarget, flags), {pair.a.sge(0, 8)});
  }
  /// Posts signalled WRITEs until one is refused, with all the time that they need; returns how many were taken.
  int fill(Pair& pair) {
    int taken = 0;
    for (; taken < 20; ++taken) {
      if (const Errno error = write(pair)) {
        EXPECT_EQ(error, ENOMEM);
        break;
      }
      EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
    }
    return taken;
  }
};
INSTANTIATE_TEST_SUITE_P(Of, SendQueuePlaces, testing::Values(nic::QpType::kRc, nic::QpType::kUc));

// A program that posts until it is refused, and only then polls, can't overrun a CQ as large as its queue.
TEST_P(SendQueuePlaces, AreFreeWhenTheCompletionHasBeenPolled) {
  Pair pair({.cqe = 4, .max_wr = 4, .type = GetParam()});
  EXPECT_EQ(fill(pair), 4);
  EXPECT_EQ(write(pair, 0), ENOMEM) << "unsignalled ones need a place, too";
  EXPECT_EQ(pair.a.cq->poll(1, [](const Completion&) {}), 1u);
  EXPECT_EQ(fill(pair), 1);
  EXPECT_EQ(pair.a.cq->resize(8), 0);
  EXPECT_EQ(write(pair), ENOMEM) << "a larger CQ does not make the queue larger";
  EXPECT_EQ(pair.a.poll().size(), 4u);
  EXPECT_EQ(fill(pair), 4);
  EXPECT_TRUE(pair.events(pair.a).empty());
}

// What a CQ loses nobody can poll.
TEST_P(SendQueuePlaces, AreNotKeptByCompletionsThatWereLost) {
  Pair pair({.cqe = 2, .max_wr = 4, .type = GetParam()});
  pair.a.cq->ignore_overrun();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(write(pair), 0) << i;
    EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
  }
  EXPECT_EQ(pair.a.poll().size(), 2u);
}

TEST(Transfer, ReceivesKeepTheirPlacesUntilTheirCompletionsHaveBeenPolled) {
  Pair pair({.cqe = 4, .max_wr = 4});
  const auto post = [&pair] { return pair.receive(pair.b, 7, {pair.b.sge(kTarget, 8)}); };
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(post(), 0);
    ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 8)}), 0);
    EXPECT_EQ(pair.run(pair.a).size(), 1u);
  }
  EXPECT_EQ(post(), ENOMEM);
  EXPECT_EQ(pair.b.cq->poll(1, [](const Completion&) {}), 1u);
  EXPECT_EQ(post(), 0);
  EXPECT_EQ(post(), ENOMEM);
  EXPECT_EQ(pair.b.poll().size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(), 0);
  EXPECT_EQ(post(), ENOMEM);
}

// In ERR each receive completes at once: to post until none is taken comes to an end.
TEST(Transfer, SoDoTheyInErr) {
  Pair pair({.cqe = 4, .max_wr = 4});
  nic::QpAttr attr;
  attr.state = nic::QpState::kErr;
  ASSERT_EQ(pair.a.nic.modify_qp(pair.a.qp, attr, nic::kAttrState), 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.receive(pair.a, 7, {}), 0);
  EXPECT_EQ(pair.receive(pair.a, 7, {}), ENOMEM);
  EXPECT_EQ(pair.a.poll().size(), 4u);
  EXPECT_EQ(pair.receive(pair.a, 7, {}), 0);
  EXPECT_TRUE(pair.events(pair.a).empty());
}

TEST(Transfer, AcksCoalesceForWhatArrivesTogether) {
  Pair pair;
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kWrite, pair.b, kTarget), {pair.a.sge(0, 8)}), 0);
  }
  EXPECT_EQ(pair.run(pair.a).size(), 8u);
  EXPECT_LE(pair.seen_from('b', Opcode::kRcAcknowledge).size(), 8u);
  EXPECT_GE(pair.seen_from('b', Opcode::kRcAcknowledge).size(), 1u);
}

TEST(Transfer, BothDirectionsAtOnce) {
  Pair pair({.psn_a = 0xFFFFF0, .psn_b = 0xFFFFFE});  // Both wrap on the way.
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(pair.receive(pair.a, i, {pair.a.sge(kTarget + i * 4000, 4000)}), 0);
    ASSERT_EQ(pair.receive(pair.b, i, {pair.b.sge(kTarget + i * 4000, 4000)}), 0);
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(pair.send(pair.a, wr(100 + i, SendOp::kSend), {pair.a.sge(i * 4000, 4000)}), 0);
    ASSERT_EQ(pair.send(pair.b, wr(100 + i, SendOp::kSend), {pair.b.sge(i * 4000, 4000)}), 0);
  }
  EXPECT_EQ(pair.run(pair.a).size(), 40u);
  EXPECT_EQ(pair.b.poll().size(), 40u);
  EXPECT_EQ(slice(pair.b, kTarget, 80'000), slice(pair.a, 0, 80'000));
  EXPECT_EQ(slice(pair.a, kTarget, 80'000), slice(pair.b, 0, 80'000));
  EXPECT_EQ(pair.a.nic.counters().retransmitted_pkts, 0u);
}

TEST(Transfer, SolicitedEventNotifiesACqArmedForIt) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.b, 1, {pair.b.sge(0, 8)}), 0);
  ASSERT_EQ(pair.receive(pair.b, 2, {pair.b.sge(0, 8)}), 0);
  pair.b.cq->arm(true);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 8)}), 0);
  pair.run(pair.a);
  EXPECT_TRUE(pair.events(pair.b).empty());
  ASSERT_EQ(pair.send(pair.a, wr(2, SendOp::kSend, nic::kSignaled | nic::kSolicited), {pair.a.sge(0, 8)}), 0);
  pair.run(pair.a);
  const auto events = pair.events(pair.b);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, nic::Event::Kind::kCqNotify);
}

}  // namespace
}  // namespace uroce::test
