// SPDX-License-Identifier: Apache-2.0
// QP states in motion: flush, drain, reset, overflow.
#include <utility>

#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using nic::Event;
using nic::QpState;
using nic::SendOp;

void move(Side& side, QpState to, std::uint32_t mask = nic::kAttrState, bool notify = false) {
  nic::QpAttr attr;
  attr.state = to;
  attr.en_sqd_notify = notify;
  ASSERT_EQ(side.nic.modify_qp(side.qp, attr, mask), 0);
}

TEST(State, ErrorFlushesBothQueues) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.a, 7, {}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend, 0), {pair.a.sge(0, 10)}), 0);
  move(pair.a, QpState::kErr);
  auto done = pair.a.poll();
  ASSERT_EQ(done.size(), 2u);
  for (const auto& c : done) EXPECT_EQ(c.status, WcStatus::kWrFlushErr);
  ASSERT_EQ(pair.send(pair.a, wr(2, SendOp::kSend, 0), {}), 0);
  ASSERT_EQ(pair.receive(pair.a, 8, {}), 0);
  done = pair.a.poll();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 2u);
  EXPECT_EQ(done[1].wr_id, 8u);
}

TEST(State, ResetFlushesNothingAndStartsAfresh) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.a, 7, {}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 10)}), 0);
  move(pair.a, QpState::kReset);
  move(pair.b, QpState::kReset);
  EXPECT_TRUE(pair.a.poll().empty());
  EXPECT_EQ(pair.a.nic.post_recv(pair.a.qp, {1, {}}), EINVAL);
  pair.connect(pair.a, pair.b, 5, 6);
  pair.connect(pair.b, pair.a, 6, 5);
  ASSERT_EQ(pair.send(pair.a, remote_wr(2, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 5000)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
}

TEST(State, SqdFinishesWhatWasBegunAndTells) {
  Pair pair;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 500'000)}), 0);
  move(pair.a, QpState::kSqd, nic::kAttrState | nic::kAttrEnSqdNotify, true);
  ASSERT_EQ(pair.send(pair.a, remote_wr(2, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
  EXPECT_TRUE(pair.a.qp->draining());
  auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_FALSE(pair.a.qp->draining());
  const auto events = pair.events(pair.a);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::kSqDrained);
  move(pair.a, QpState::kRts);
  pair.world.kick(pair.a.node);
  EXPECT_EQ(pair.run(pair.a).at(0).wr_id, 2u);
}

TEST(State, FirstPacketInRtrRaisesCommEst) {
  Pair pair;
  move(pair.b, QpState::kReset);
  nic::QpAttr attr = pair.attr(pair.b, pair.a, 0x200, 0x100);
  attr.state = QpState::kInit;
  ASSERT_EQ(pair.b.nic.modify_qp(pair.b.qp, attr, 0x39), 0);
  attr.state = QpState::kRtr;
  ASSERT_EQ(pair.b.nic.modify_qp(pair.b.qp, attr,
                                 nic::kAttrState | nic::kAttrAv | nic::kAttrPathMtu | nic::kAttrDestQpn |
                                     nic::kAttrRqPsn | nic::kAttrMaxDestRdAtomic | nic::kAttrMinRnrTimer),
            0);
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 5000)}), 0);
  EXPECT_EQ(pair.run(pair.a).at(0).status, WcStatus::kSuccess);
  const auto events = pair.events(pair.b);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Event::Kind::kCommEst);
}

TEST(State, ResetForgetsCompletions) {
  Pair pair;
  ASSERT_EQ(pair.send(pair.a, remote_wr(1, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
  EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
  move(pair.a, QpState::kReset);
  EXPECT_TRUE(pair.run(pair.a).empty());
}

// Who has destroyed a QP is not told of its WRs any more; and their completions take no room from those of the next
// one.
TEST(State, SoDoesTheEndOfAQp) {
  Pair pair;
  ASSERT_EQ(pair.receive(pair.b, 7, {pair.b.sge(0, 10)}), 0);
  ASSERT_EQ(pair.send(pair.a, wr(1, SendOp::kSend), {pair.a.sge(0, 10)}), 0);
  EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
  EXPECT_EQ(pair.a.cq->size(), 1u);
  EXPECT_EQ(pair.b.cq->size(), 1u);
  for (auto* end : {&pair.a, &pair.b}) {
    end->nic.destroy_qp(std::exchange(end->qp, nullptr));
    EXPECT_TRUE(end->poll().empty());
  }
}

TEST(State, ResetFreesTheWholeSendQueue) {
  Pair pair({.max_wr = 4});
  const auto fill = [&pair] {
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
    }
    EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
    EXPECT_EQ(pair.send(pair.a, remote_wr(9, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), ENOMEM);
  };
  fill();
  move(pair.a, QpState::kReset);
  move(pair.b, QpState::kReset);
  pair.connect(pair.a, pair.b, 5, 6);
  pair.connect(pair.b, pair.a, 6, 5);
  fill();
  EXPECT_EQ(pair.a.poll().size(), 4u);
}

TEST(State, CqOverflowKillsTheQp) {
  Pair pair({.cqe = 2});
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
  }
  EXPECT_EQ(pair.run(pair.a).size(), 2u);
  EXPECT_EQ(pair.a.qp->state(), QpState::kErr);
  const auto events = pair.events(pair.a);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Event::Kind::kCqErr);
  EXPECT_EQ(events[1].kind, Event::Kind::kQpFatal);
}

// As on cards: the CQ stays in error.
TEST(State, AQpThatComesBackToADeadCqDiesAgain) {
  Pair pair({.cqe = 2});
  const auto write = [&pair](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(pair.send(pair.a, remote_wr(i, SendOp::kWrite, pair.b, 0), {pair.a.sge(0, 10)}), 0);
    }
    pair.run(pair.a);
  };
  write(4);
  EXPECT_EQ(pair.events(pair.a).size(), 2u);
  for (const std::uint64_t count : {1u, 4u}) {
    move(pair.a, QpState::kReset);
    move(pair.b, QpState::kReset);
    pair.connect(pair.a, pair.b, 5, 6);
    pair.connect(pair.b, pair.a, 6, 5);
    write(count);
    EXPECT_EQ(pair.a.qp->state(), QpState::kErr) << count;
    const auto events = pair.events(pair.a);
    ASSERT_EQ(events.size(), 1u) << count << ": CQ_ERR was told before";
    EXPECT_EQ(events[0].kind, Event::Kind::kQpFatal);
  }
}

TEST(State, RangesAreChecked) {
  Pair pair;
  move(pair.a, QpState::kReset);
  nic::QpAttr good = pair.attr(pair.a, pair.b, 1, 2);
  const std::uint32_t to_init = nic::kAttrState | nic::kAttrPkeyIndex | nic::kAttrPort | nic::kAttrAccess;
  const std::uint32_t to_rtr = nic::kAttrState | nic::kAttrAv | nic::kAttrPathMtu | nic::kAttrDestQpn |
                               nic::kAttrRqPsn | nic::kAttrMaxDestRdAtomic | nic::kAttrMinRnrTimer;
  const std::uint32_t to_rts = nic::kAttrState | nic::kAttrTimeout | nic::kAttrRetryCnt | nic::kAttrRnrRetry |
                               nic::kAttrSqPsn | nic::kAttrMaxRdAtomic;
  const auto refuse = [&](QpState to, std::uint32_t mask, auto change) {
    nic::QpAttr bad = good;
    bad.state = to;
    change(bad);
    const QpState before = pair.a.qp->state();
    EXPECT_EQ(pair.a.nic.modify_qp(pair.a.qp, bad, mask), EINVAL);
    EXPECT_EQ(pair.a.qp->state(), before);
  };
  const auto accept = [&](QpState to, std::uint32_t mask) {
    good.state = to;
    EXPECT_EQ(pair.a.nic.modify_qp(pair.a.qp, good, mask), 0);
  };
  refuse(QpState::kInit, to_init, [](nic::QpAttr& a) { a.port = 2; });
  refuse(QpState::kInit, to_init, [](nic::QpAttr& a) { a.pkey_index = 1; });
  accept(QpState::kInit, to_init);
  refuse(QpState::kRtr, to_rtr, [](nic::QpAttr& a) { a.path_mtu = 6; });
  refuse(QpState::kRtr, to_rtr, [](nic::QpAttr& a) { a.path_mtu = 0; });
  refuse(QpState::kRtr, to_rtr, [](nic::QpAttr& a) { a.min_rnr_timer = 32; });
  refuse(QpState::kRtr, to_rtr, [](nic::QpAttr& a) { a.max_dest_rd_atomic = 129; });
  accept(QpState::kRtr, to_rtr);
  refuse(QpState::kRts, to_rts, [](nic::QpAttr& a) { a.timeout = 32; });
  refuse(QpState::kRts, to_rts, [](nic::QpAttr& a) { a.retry_cnt = 8; });
  refuse(QpState::kRts, to_rts, [](nic::QpAttr& a) { a.rnr_retry = 8; });
  refuse(QpState::kRts, to_rts, [](nic::QpAttr& a) { a.max_rd_atomic = 129; });
  refuse(QpState::kRts, to_rts | nic::kAttrCurState, [](nic::QpAttr& a) { a.cur_state = QpState::kInit; });
  accept(QpState::kRts, to_rts);
}

}  // namespace
}  // namespace uroce::test
