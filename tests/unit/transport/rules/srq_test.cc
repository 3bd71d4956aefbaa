// SPDX-License-Identifier: Apache-2.0
// Shared receive queues (IBTA Vol 1, 10.2.9, 9.7.7.2 and 11.6.3).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr std::uint8_t kUnlimited = 31;
constexpr Setup kShared{.srq_wr = 8};

// IBTA 10.2.9: receives complete at the QP that took them, in the order of the queue.
TEST(Srq, ReceivesAreTakenInOrder) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.post_srq(8, 100, 4096);
  s.recv(send_only(0).bytes(100, 0xA1).ack_req());
  s.expect(ack(0).msn(1));
  s.recv(packet(Opcode::kRcWriteOnlyImm, 1).length(0).imm(5).ack_req());
  s.expect(ack(1).msn(2));
  EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).qpn, s.qp->qpn());
  EXPECT_EQ(s.expect_done(8, WcStatus::kSuccess).imm, 5u);
  EXPECT_EQ(s.memory[99], 0xA1);
  EXPECT_TRUE(s.srq->empty());
  EXPECT_EQ(s.nic.counters().rcvd_writes, 0u) << "a completion tells of it";
}

// IBTA 9.7.7.2: nobody can be promised a receive that others may take.
TEST(Srq, NoCreditsAreAnnounced) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.post_srq(8, 100);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0).syndrome(kUnlimited));
  s.recv(read_request(1, 8));
  s.expect(read_only(1).syndrome(kUnlimited));
  s.recv(fetch_add(2, 1));
  s.expect(packet(Opcode::kRcAtomicAcknowledge, 2).syndrome(kUnlimited));
  s.ignore_rest();
}

// IBTA 9.7.5.2.8: an empty SRQ draws an RNR NAK, and a receive posted later is taken by the repetition.
TEST(Srq, EmptyMeansRnr) {
  Script s(kShared);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(rnr_nak(0, 12).msn(0));
  s.post_srq(7, 100);
  s.expect_silence();
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0).msn(1));
  s.expect_done(7, WcStatus::kSuccess);
}

// IBTA 9.7.5.2.8: nor does it draw one when a receive and the packet come again before it is sent. What was refused
// behind it is asked for.
TEST(Srq, AReceiveInTimeTakesBackTheRnrNak) {
  for (const bool more : {false, true}) {
    Script s(kShared);
    std::vector<Pkt> packets{send_only(0).bytes(4).ack_req()};
    if (more) packets.push_back(write_only(1, 8).ack_req());
    packets.push_back(send_only(0).bytes(4).ack_req().header([&s](proto::PacketBuilder&) { s.post_srq(7, 100); }));
    s.recv_together(packets);
    s.expect((more ? sequence_nak(1) : ack(0)).msn(1));
    s.expect_done(7, WcStatus::kSuccess);
  }
}

/// A second QP on the SRQ of a script, without a peer: it takes receives as the first packet of a message does.
struct Rival {
  explicit Rival(Script& script) : s(script), sges(2) {}
  std::uint64_t take() {
    nic::RecvWqe wqe;
    s.srq->take(wqe, sges);
    return wqe.wr_id;
  }
  Script& s;
  std::vector<nic::Sge> sges;
};

// IBTA 10.2.9: a message has its receive from its first packet on; nobody can take it away in between.
TEST(Srq, AMessageKeepsItsReceive) {
  Script s(kShared);
  Rival rival(s);
  s.post_srq(7, 4096);
  s.post_srq(8, 4096, 8192);
  s.recv(send_first(0).bytes(kMtu, 0x11));
  EXPECT_EQ(s.srq->size(), 1u);
  EXPECT_EQ(rival.take(), 8u);
  s.recv(send_middle(1).bytes(kMtu, 0x22));
  s.recv(send_last(2).bytes(10, 0x33).ack_req());
  s.expect(ack(2).msn(1));
  EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).byte_len, 2 * kMtu + 10);
  EXPECT_EQ(s.memory[0], 0x11);
  EXPECT_EQ(s.memory[2 * kMtu], 0x33);
}

// A message of several packets needs one receive, at its first: later ones never draw an RNR NAK.
TEST(Srq, AMessageTakesOneReceive) {
  Script s(kShared);
  s.post_srq(7, 4096);
  s.recv(send_first(0).bytes(kMtu));
  s.recv(send_last(1).bytes(1).ack_req());
  s.expect(ack(1).msn(1));
  s.expect_done(7, WcStatus::kSuccess);
}

// A repeated first packet is a duplicate and takes nothing.
TEST(Srq, DuplicatesTakeNothing) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.post_srq(8, 100);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0));
  s.expect_done(7, WcStatus::kSuccess);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0).msn(1));
  EXPECT_EQ(s.srq->size(), 1u);
}

// IBTA 9.7.4.1.2: nor does a packet out of sequence.
TEST(Srq, PacketsBehindAGapTakeNothing) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.recv(send_only(3).bytes(4).ack_req());
  s.expect(sequence_nak(0));
  EXPECT_EQ(s.srq->size(), 1u);
}

// IBTA 11.6.3.?: the limit event comes when fewer receives than the limit are left, and once.
TEST(Srq, LimitFiresOnce) {
  Script s(kShared);
  for (std::uint64_t id = 0; id < 6; ++id) s.post_srq(id, 100);
  ASSERT_EQ(s.srq->arm(4), 0);
  const auto take_one = [&s](std::int64_t psn) {
    s.recv(send_only(psn).bytes(4));
    s.expect_done(static_cast<std::uint64_t>(psn), WcStatus::kSuccess);
  };
  take_one(0);
  take_one(1);
  EXPECT_EQ(s.srq->limit(), 4u);
  take_one(2);  // Three are left: fewer than four.
  s.expect_event(Event::Kind::kSrqLimitReached);
  EXPECT_EQ(s.srq->limit(), 0u) << "disarmed";
  take_one(3);
  ASSERT_EQ(s.srq->arm(2), 0);
  take_one(4);
  s.expect_event(Event::Kind::kSrqLimitReached);
  take_one(5);
}

// An SRQ that is not armed says nothing, empty or not.
TEST(Srq, NoLimitNoEvent) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.recv(send_only(0).bytes(4));
  s.expect_done(7, WcStatus::kSuccess);
}

// IBTA 10.3.1 and 11.6.3.?: in ERR the receive of the message under way is flushed, the others stay in the queue, and
// the owner hears that the QP takes no more.
TEST(Srq, InErrOnlyWhatTheQpTookIsFlushed) {
  Script s(kShared);
  s.post_srq(7, 4096);
  s.post_srq(8, 4096);
  s.recv(send_first(0).bytes(kMtu));
  s.move_to(QpState::kErr);
  s.expect_done(7, WcStatus::kWrFlushErr);
  s.expect_event(Event::Kind::kLastWqeReached);
  EXPECT_EQ(s.srq->size(), 1u);
}

// The same when nothing was taken; and once.
TEST(Srq, LastWqeReachedIsToldOnce) {
  Script s(kShared);
  s.post_srq(7, 100);
  s.move_to(QpState::kErr);
  s.expect_event(Event::Kind::kLastWqeReached);
  s.move_to(QpState::kErr);
  s.move_to(QpState::kReset);
  s.move_to(QpState::kErr);
  s.expect_event(Event::Kind::kLastWqeReached);
}

// IBTA 10.3.1: RESET leaves no completions behind; the receive that the QP had taken is the next message's.
TEST(Srq, ResetGivesBackWhatTheQpTook) {
  Script s(kShared);
  s.post_srq(7, 4096);
  s.recv(send_first(0).bytes(kMtu));
  s.move_to(QpState::kReset);
  s.expect_not_done();
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) s.move_to(state);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0));
  s.expect_done(7, WcStatus::kSuccess);
}

// IBTA 9.9.3: the receive in use tells of the error; those in the queue are others' too.
TEST(Srq, AnErrorCostsOneReceive) {
  {
    Script too_long(kShared);
    too_long.post_srq(7, 10);
    too_long.post_srq(8, 10);
    too_long.recv(send_only(0).bytes(11).ack_req());
    too_long.expect(nak(0, NakCode::kInvalidRequest));
    too_long.expect_done(7, WcStatus::kLocLenErr);
    too_long.expect_event(Event::Kind::kQpReqErr);
    too_long.expect_event(Event::Kind::kLastWqeReached);
    EXPECT_EQ(too_long.srq->size(), 1u);
  }
  {
    Script sequence(kShared);
    sequence.post_srq(7, 4096);
    sequence.recv(send_first(0).bytes(kMtu));
    sequence.recv(write_only(1, 4));
    sequence.expect(nak(1, NakCode::kInvalidRequest));
    sequence.expect_done(7, WcStatus::kRemInvReqErr);
    sequence.expect_event(Event::Kind::kQpReqErr);
    sequence.expect_event(Event::Kind::kLastWqeReached);
  }
  {
    Script outside(kShared);
    outside.post_srq(7, 4096, (1 << 20) - 10);
    outside.recv(send_only(0).bytes(11).ack_req());
    outside.expect(nak(0, NakCode::kRemoteOperationalError));
    outside.expect_done(7, WcStatus::kLocProtErr);
    outside.expect_event(Event::Kind::kQpFatal);
    outside.expect_event(Event::Kind::kLastWqeReached);
  }
}

// IBTA 10.2.9.?: L_Keys are of the SRQ's PD, which need not be the QP's.
TEST(Srq, KeysAreOfItsPd) {
  Script s(kShared);
  nic::Pd* const other = s.nic.alloc_pd();
  std::vector<std::uint8_t> theirs(64);
  nic::Mr* const mr = *s.nic.mrs().add(other, theirs.data(), theirs.size(), 0x1000, nic::kLocalWrite);
  nic::QpInit init = s.qp->init();
  init.srq = *s.nic.create_srq({.pd = other, .max_wr = 8, .max_sge = 1});
  s.nic.destroy_qp(s.qp);
  s.qp = *s.nic.create_qp(init);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) s.move_to(state);
  const nic::Sge good[] = {{0x1000, 64, mr->key}}, of_the_qp[] = {s.sge(0, 64)};
  ASSERT_EQ(init.srq->post({7, good}), 0);
  ASSERT_EQ(init.srq->post({8, of_the_qp}), 0);
  s.recv(send_only(0).bytes(4).ack_req());
  s.expect(ack(0).msn(1));
  s.expect_done(7, WcStatus::kSuccess);
  EXPECT_EQ(theirs[0], 0xEE);
  s.recv(send_only(1).bytes(4).ack_req());
  s.expect(nak(1, NakCode::kRemoteOperationalError));
  s.expect_done(8, WcStatus::kLocProtErr);
  s.ignore_rest();
}

// ibv_post_recv(3), ibv_post_srq_recv(3): which queue takes receives, and how many of how many pieces.
TEST(Srq, Posting) {
  Script s({.srq_wr = 2});
  const std::vector<nic::Sge> list(3, s.sge(0, 10));
  EXPECT_EQ(s.nic.post_recv(s.qp, {7, {list.data(), 1}}), EINVAL) << "the QP has no queue of its own";
  EXPECT_EQ(s.srq->post({7, list}), EINVAL) << "max_sge is 2";
  EXPECT_EQ(s.srq->post({7, {}}), 0);
  EXPECT_EQ(s.srq->post({8, {list.data(), 2}}), 0);
  EXPECT_EQ(s.srq->post({9, {list.data(), 1}}), ENOMEM);
}

// ibv_modify_srq(3).
TEST(Srq, ResizingKeepsWhatIsPosted) {
  Script s({.srq_wr = 2});
  s.post_srq(7, 100);
  s.post_srq(8, 200);
  EXPECT_EQ(s.srq->resize(1, 0), EINVAL);
  EXPECT_EQ(s.srq->resize(nic::kMaxSrqWr + 1, 0), EINVAL);
  EXPECT_EQ(s.srq->resize(4, 5), EINVAL);
  ASSERT_EQ(s.srq->resize(4, 0), 0);
  s.post_srq(9, 100);
  s.recv(send_only(0).bytes(100));
  s.recv(send_only(1).bytes(200));
  s.recv(send_only(2).bytes(100));
  for (const std::uint64_t id : {7u, 8u, 9u}) s.expect_done(id, WcStatus::kSuccess);
  EXPECT_EQ(s.srq->arm(5), EINVAL);
  EXPECT_EQ(s.srq->arm(4), 0);
}

// IBTA 11.2.?: what is in use stays.
TEST(Srq, LifeCycle) {
  Script s(kShared);
  EXPECT_EQ(s.nic.destroy_srq(s.srq), EBUSY);
  s.nic.destroy_qp(s.qp);
  EXPECT_EQ(s.nic.destroy_srq(s.srq), 0);
  nic::Pd* const pd = s.nic.alloc_pd();
  nic::Srq* const alone = *s.nic.create_srq({.pd = pd, .max_wr = 1, .max_sge = 1});
  EXPECT_EQ(s.nic.dealloc_pd(pd), EBUSY);
  EXPECT_EQ(s.nic.destroy_srq(alone), 0);
  EXPECT_EQ(s.nic.dealloc_pd(pd), 0);
  for (const nic::SrqInit& wrong : {nic::SrqInit{s.pd, 0, 1}, nic::SrqInit{s.pd, nic::kMaxSrqWr + 1, 1},
                                    nic::SrqInit{s.pd, 1, nic::kMaxSrqSge + 1}, nic::SrqInit{nullptr, 1, 1}}) {
    EXPECT_FALSE(s.nic.create_srq(wrong).ok());
  }
  // The script's QP is gone: a packet of its peer finds nobody, and the destructor has nothing to collect.
}

}  // namespace
}  // namespace uroce::test::rules
