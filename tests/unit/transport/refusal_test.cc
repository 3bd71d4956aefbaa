// SPDX-License-Identifier: Apache-2.0
// What the responder refuses, and what both sides see of it.
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using nic::Event;
using nic::SendOp;
using proto::Opcode;

struct Refusal {
  const char* name;
  std::function<nic::SendWr(Pair&)> make;
  std::size_t length;
  int syndrome;
  WcStatus status;
  std::optional<Event::Kind> event;
  PairOptions options{};
};

std::ostream& operator<<(std::ostream& os, const Refusal& r) { return os << r.name; }

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NakErrorAndFlush) {
  const Refusal& r = GetParam();
  Pair pair(r.options);
  const auto before = pair.b.memory;
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 50)}), 0);
  ASSERT_EQ(pair.receive(pair.b, 8, {pair.b.sge(0, 50)}), 0);
  ASSERT_EQ(pair.send(pair.a, r.make(pair), {pair.a.sge(0, r.length)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(2, SendOp::kSend), {pair.a.sge(0, 10)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, r.status);
  EXPECT_EQ(done[1].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.a.qp->state(), nic::QpState::kErr);
  EXPECT_EQ(pair.b.qp->state(), nic::QpState::kErr);
  const auto naks = pair.seen_from('b', Opcode::kRcAcknowledge);
  ASSERT_FALSE(naks.empty());
  EXPECT_EQ(naks.back().syndrome, r.syndrome);
  EXPECT_EQ(pair.b.memory, before) << "nothing may be touched";
  const auto events = pair.events(pair.b);
  ASSERT_EQ(events.size(), r.event ? 1u : 0u);
  if (r.event) {
    EXPECT_EQ(events[0].kind, *r.event);
  }
  const auto flushed = pair.b.poll();
  ASSERT_EQ(flushed.size(), 2u);
  EXPECT_EQ(flushed[1].status, WcStatus::kWrFlushErr);
}

constexpr std::uint32_t kAll = nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic;

nic::SendWr bad_rkey(nic::SendWr w) {
  w.rkey ^= 1;
  return w;
}

INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    testing::Values(
        Refusal{"write, wrong rkey", [](Pair& p) { return bad_rkey(remote_wr(1, SendOp::kWrite, p.b, 0)); }, 100, 0x62,
                WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"long write, wrong rkey", [](Pair& p) { return bad_rkey(remote_wr(1, SendOp::kWrite, p.b, 0)); }, 5000,
                0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"read, wrong rkey", [](Pair& p) { return bad_rkey(remote_wr(1, SendOp::kRead, p.b, 0)); }, 100, 0x62,
                WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"atomic, wrong rkey", [](Pair& p) { return bad_rkey(remote_wr(1, SendOp::kFetchAdd, p.b, 0)); }, 8,
                0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"write over the end", [](Pair& p) { return remote_wr(1, SendOp::kWrite, p.b, p.b.memory.size() - 99); },
                100, 0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"long write over the end: judged at the first packet",
                [](Pair& p) { return remote_wr(1, SendOp::kWrite, p.b, p.b.memory.size() - 4999); }, 5000, 0x62,
                WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"write before the beginning",
                [](Pair& p) {
                  auto w = remote_wr(1, SendOp::kWrite, p.b, 0);
                  w.remote_addr -= 1;
                  return w;
                },
                100, 0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"write around the end of the address space",
                [](Pair& p) {
                  auto w = remote_wr(1, SendOp::kWrite, p.b, 0);
                  w.remote_addr = ~std::uint64_t{0} - 10;
                  return w;
                },
                100, 0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr},
        Refusal{"region without remote write",
                [](Pair& p) { return remote_wr(1, SendOp::kWrite, p.b, 0); },
                100,
                0x62,
                WcStatus::kRemAccessErr,
                Event::Kind::kQpAccessErr,
                {.mr_access = nic::kLocalWrite | nic::kRemoteRead}},
        Refusal{"region without remote read",
                [](Pair& p) { return remote_wr(1, SendOp::kRead, p.b, 0); },
                100,
                0x62,
                WcStatus::kRemAccessErr,
                Event::Kind::kQpAccessErr,
                {.mr_access = nic::kLocalWrite | nic::kRemoteWrite}},
        Refusal{"QP without remote write",
                [](Pair& p) { return remote_wr(1, SendOp::kWrite, p.b, 0); },
                100,
                0x61,
                WcStatus::kRemInvReqErr,
                Event::Kind::kQpReqErr,
                {.qp_access = kAll & ~nic::kRemoteWrite}},
        Refusal{"QP without remote atomic",
                [](Pair& p) { return remote_wr(1, SendOp::kFetchAdd, p.b, 0); },
                8,
                0x61,
                WcStatus::kRemInvReqErr,
                Event::Kind::kQpReqErr,
                {.qp_access = kAll & ~nic::kRemoteAtomic}},
        Refusal{"send longer than the receive", [](Pair&) { return wr(1, SendOp::kSend); }, 51, 0x61,
                WcStatus::kRemInvReqErr, Event::Kind::kQpReqErr},
        Refusal{"send with invalidate of a region that is no window",
                [](Pair& p) {
                  auto w = wr(1, SendOp::kSendInv);
                  w.rkey = p.b.mr->key;
                  return w;
                },
                0, 0x62, WcStatus::kRemAccessErr, Event::Kind::kQpAccessErr}));

TEST(Refusal, ReceiveTooShortCompletesWithALengthError) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 50)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 51)}), 0);
  pair.run(pair.a);
  EXPECT_EQ(pair.b.poll().at(0).status, WcStatus::kLocLenErr);
}

TEST(Refusal, ReceiveWithABadKeyIsARemoteOperationalError) {
  Pair pair;
  auto sge = pair.b.sge(0, 100);
  sge.lkey ^= 1;
  ASSERT_EQ(pair.receive(pair.b, 7, {sge}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kRemOpErr);
  EXPECT_EQ(pair.b.poll().at(0).status, WcStatus::kLocProtErr);
}

TEST(Refusal, LocalKeyErrorWaitsForTheWrsBeforeIt) {
  Pair pair;
  auto bad = pair.a.sge(0, 100);
  bad.lkey ^= 1;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 5000)}), 0);
  ASSERT_EQ(pair.send(pair.a, remote_wr(2, SendOp::kWrite, pair.b, 0), {bad}), 0);
  ASSERT_EQ(pair.send(pair.a, remote_wr(3, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kLocProtErr);
  EXPECT_EQ(done[2].status, WcStatus::kWrFlushErr);
}

TEST(Refusal, ReadIntoARegionWithoutLocalWrite) {
  Pair pair;
  const auto read_only = pair.a.nic.mrs().add(pair.a.pd, pair.a.memory.data(), 100, pair.a.va(), 0);
  ASSERT_TRUE(read_only.ok());
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, 0), {{pair.a.va(), 100, (*read_only)->key}}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kLocProtErr);
  pair.a.nic.mrs().remove(*read_only);
}

TEST(Refusal, RegionDeregisteredWhileAWriteIsUnderWay) {
  Pair pair;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 200'000)}), 0);
  pair.world.run_until([&] { return pair.b.nic.counters().rcvd_pkts >= 10; }, 1s);
  pair.b.nic.mrs().remove(pair.b.mr);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kRemAccessErr);
}

TEST(Refusal, ZeroLengthNeedsNoKey) {
  Pair pair;
  for (SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    ASSERT_EQ(pair.send(pair.a, wr(1, op), {}), 0);
    EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  }
}

TEST(Refusal, PostChecks) {
  Pair pair;
  auto misaligned = remote_wr(1, SendOp::kFetchAdd, pair.b, 4);
  EXPECT_EQ(pair.send(pair.a, misaligned, {pair.a.sge(0, 8)}), EINVAL);
  EXPECT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kFetchAdd, pair.b, 0), {pair.a.sge(0, 4)}), EINVAL);
  EXPECT_EQ(pair.send(pair.a, wr(1, SendOp::kSend, nic::kInline), {pair.a.sge(0, 257)}), EINVAL);
  EXPECT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, 0, nic::kInline), {pair.a.sge(0, 8)}), EINVAL);
  EXPECT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), std::vector<nic::Sge>(17, pair.a.sge(0, 1))), EINVAL);
  EXPECT_TRUE(pair.seen.empty());
}

}  // namespace
}  // namespace uroce::test
