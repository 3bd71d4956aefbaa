// SPDX-License-Identifier: Apache-2.0
// Losses, NAKs and timers, one packet at a time.
#include <gmock/gmock.h>

#include "proto/timing.h"
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using engine::sim::Packet;
using engine::sim::Verdict;
using nic::SendOp;
using proto::Opcode;

/// Drops the first `count` packets with this opcode and PSN.
void drop(Pair& pair, Opcode opcode, std::uint32_t psn, int count = 1) {
  pair.world.set_filter([=](Packet& p, Instant) mutable {
    const auto parsed = proto::parse_packet(p.bytes);
    if (parsed->op().code == opcode && parsed->psn().value() == psn && count > 0) {
      --count;
      return Verdict::drop();
    }
    return Verdict::pass();
  });
}

std::vector<int> syndromes_from_b(const Pair& pair) {
  std::vector<int> out;
  for (const Seen& s : pair.seen_from('b', Opcode::kRcAcknowledge)) out.push_back(s.syndrome);
  return out;
}

TEST(Retry, LostMiddleDrawsOneNakAndGoesBack) {
  Pair pair;
  drop(pair, Opcode::kRcSendMiddle, 0x103);
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 8192)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 8192)}), 0);
  const Instant start = pair.world.now();
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.poll().size(), 1u);
  EXPECT_THAT(syndromes_from_b(pair), testing::ElementsAre(0x01, 0x60, 0x00));
  EXPECT_EQ(pair.a.nic.counters().local_ack_timeout_err, 0u);
  EXPECT_EQ(pair.a.nic.counters().retransmitted_pkts, 5u) << "0x103 .. 0x107";
  EXPECT_LT(pair.world.now() - start, 67ms + 1ms);
}

TEST(Retry, LostLastWaitsForTheTimeout) {
  Pair pair;
  drop(pair, Opcode::kRcSendLast, 0x107);
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 8192)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 8192)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.poll().size(), 1u);
  EXPECT_EQ(pair.a.nic.counters().local_ack_timeout_err, 1u);
}

TEST(Retry, LostAckIsRepeatedForTheDuplicateWithoutEffect) {
  Pair pair;
  drop(pair, Opcode::kRcAcknowledge, 0x100);
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 100)}), 0);
  ASSERT_EQ(pair.receive(pair.b, 8, {pair.b.sge(0, 100)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.poll().size(), 1u) << "the duplicate took no second receive";
  EXPECT_EQ(pair.b.nic.counters().duplicate_request, 1u);
}

TEST(Retry, LostAtomicAckIsReplayedAndNotExecutedTwice) {
  Pair pair;
  drop(pair, Opcode::kRcAtomicAcknowledge, 0x100);
  const std::uint64_t zero = 0;
  std::memcpy(pair.b.memory.data(), &zero, 8);
  auto add = remote_wr(1, SendOp::kFetchAdd, pair.b, 0);
  add.compare_add = 5;
  ASSERT_EQ(pair.send(pair.a, add, {pair.a.sge(0, 8)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  std::uint64_t old = 1, now = 0;
  std::memcpy(&old, pair.a.memory.data(), 8);
  std::memcpy(&now, pair.b.memory.data(), 8);
  EXPECT_EQ(old, 0u);
  EXPECT_EQ(now, 5u);
}

TEST(Retry, LostReadResponseIsAskedForFromTheGapOn) {
  Pair pair;
  drop(pair, Opcode::kRcReadResponseMiddle, 0x103);
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, 0), {pair.a.sge(500'000, 8192)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  const auto requests = pair.seen_from('a', Opcode::kRcReadRequest);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].psn, 0x103u);
  EXPECT_EQ(requests[1].read_length, 8192u - 3 * 1024);
  EXPECT_EQ(pair.a.nic.counters().local_ack_timeout_err, 0u) << "the next response tells of the gap";
  EXPECT_TRUE(std::equal(pair.a.memory.begin() + 500'000, pair.a.memory.begin() + 508'192, pair.b.memory.begin()));
}

TEST(Retry, AckBeyondAnUnansweredReadIsAnImpliedNak) {
  Pair pair;
  drop(pair, Opcode::kRcReadResponseOnly, 0x100);
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kRead, pair.b, 0), {pair.a.sge(500'000, 100)}), 0);
  ASSERT_EQ(pair.send(pair.a, remote_wr(2, SendOp::kWrite, pair.b, 1000), {pair.a.sge(0, 100)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.nic.counters().implied_nak, 1u);
}

/// (retry_cnt): the QP gives up after retry_cnt resends, within the time that timeout and retry_cnt promise.
class RetryCount : public testing::TestWithParam<std::uint8_t> {};

TEST_P(RetryCount, ExhaustedByTimeouts) {
  Pair pair({.timeout = 14, .retry_cnt = GetParam()});
  pair.world.set_filter([](Packet&, Instant) { return Verdict::drop(); });
  const Instant start = pair.world.now();
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend, 0), {pair.a.sge(0, 100)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(2, SendOp::kSend, 0), {pair.a.sge(0, 100)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 2u) << "errors complete unsignalled WRs too";
  EXPECT_EQ(done[0].status, WcStatus::kRetryExcErr);
  EXPECT_EQ(done[1].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.a.qp->state(), nic::QpState::kErr);
  EXPECT_EQ(pair.world.now() - start, (GetParam() + 1) * *proto::local_ack_timeout(14));
  EXPECT_EQ(pair.seen_from('a', Opcode::kRcSendOnly).size(), GetParam() + 1u) << "the second one waits for a credit";
}
INSTANTIATE_TEST_SUITE_P(All, RetryCount, testing::Values(0, 1, 3, 7));

TEST(Retry, ProgressRestoresTheRetryCount) {
  Pair pair({.retry_cnt = 1});
  int n = 0;
  // Every second packet of each side is lost: never two in a row without progress.
  pair.world.set_filter([&](Packet& p, Instant) {
    const auto parsed = proto::parse_packet(p.bytes);
    return parsed->op().kind == proto::Kind::kWrite && ++n % 2 == 1 ? Verdict::drop() : Verdict::pass();
  });
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
    EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess) << i;
  }
}

TEST(Retry, TimeoutZeroNeverGivesUp) {
  Pair pair({.timeout = 0});
  drop(pair, Opcode::kRcSendOnly, 0x100);
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 100)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  EXPECT_TRUE(pair.run(pair.a).empty());
  EXPECT_EQ(pair.a.qp->state(), nic::QpState::kRts);
}

TEST(Retry, RnrWaitsAsLongAsTheCodeSays) {
  Pair pair({.min_rnr_timer = 20});
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(2, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  const Instant start = pair.world.now();
  pair.world.after(1ms, [&] {
    for (std::uint64_t i : {7u, 8u}) pair.b.nic.post_recv(pair.b.qp, {i, {}});
  });
  std::vector<nic::Sge> none;
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_GE(pair.world.now() - start, proto::rnr_delay(20));
  EXPECT_EQ(done[0].status, WcStatus::kRemInvReqErr) << "100 bytes do not fit a receive without SGEs";
  EXPECT_EQ(pair.a.nic.counters().rcvd_rnr_err, 1u);
}

TEST(Retry, RnrRetryExhausted) {
  Pair pair({.rnr_retry = 2, .min_rnr_timer = 1});
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kRnrRetryExcErr);
  EXPECT_EQ(pair.seen_from('a', Opcode::kRcSendOnly).size(), 3u);
  EXPECT_EQ(pair.b.qp->state(), nic::QpState::kRts) << "RNR is no error of the responder";
}

TEST(Retry, AnRnrNakThatTheNetworkDoublesCountsOnce) {
  Pair pair({.rnr_retry = 1, .min_rnr_timer = 20});
  pair.world.set_filter([&](engine::sim::Packet& packet, Instant) {
    return packet.from == pair.b.node ? engine::sim::Verdict::duplicate() : engine::sim::Verdict::pass();
  });
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  pair.world.after(1ms, [&] { pair.receive(pair.b, 7, {pair.b.sge(0, 100)}); });
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.nic.counters().rcvd_rnr_err, 1u);
}

TEST(Retry, RnrRetrySevenIsForEver) {
  Pair pair({.rnr_retry = 7, .min_rnr_timer = 1});
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 100)}), 0);
  pair.world.after(20ms, [&] { pair.receive(pair.b, 7, {pair.b.sge(0, 100)}); });
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_GT(pair.a.nic.counters().rcvd_rnr_err, 100u);
}

TEST(Retry, RnrForWriteWithImmediateComesAtItsEnd) {
  Pair pair({.min_rnr_timer = 1});
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWriteImm, pair.b, 0), {pair.a.sge(0, 3000)}), 0);
  pair.world.after(1ms, [&] { pair.receive(pair.b, 7, {}); });
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.poll().at(0).byte_len, 3000u);
  EXPECT_EQ(pair.seen_from('a', Opcode::kRcWriteFirst).size(), 1u) << "only the last packet is sent again";
}

TEST(Retry, CorruptPacketIsLikeALostOne) {
  Pair pair;
  bool done_once = false;
  pair.world.set_filter([&](Packet& p, Instant) {
    if (!done_once && p.bytes.size() > 500) {
      p.bytes[300] ^= 1;
      done_once = true;
    }
    return Verdict::pass();
  });
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 3000)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.nic.counters().icrc_errors, 1u);
  EXPECT_TRUE(std::equal(pair.b.memory.begin(), pair.b.memory.begin() + 3000, pair.a.memory.begin()));
}

}  // namespace
}  // namespace uroce::test
