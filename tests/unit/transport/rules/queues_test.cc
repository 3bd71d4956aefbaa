// SPDX-License-Identifier: Apache-2.0
// Work queues and states: what completes, in which order, and what waits for what (IBTA Vol 1, 10.3, 10.7, 10.8).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

void unsignaled(nic::SendWr& wr) { wr.flags = 0; }

// IBTA 10.8.3.3: a fenced WR begins when all READs and atomics before it have been answered.
TEST(Fence, WaitsForReadsAndAtomics) {
  Script s;
  s.post_send(1, SendOp::kRead, 8);
  s.post_send(2, SendOp::kFetchAdd, 8);
  s.post_send(3, SendOp::kWrite, 8, [](nic::SendWr& wr) { wr.flags |= nic::kFence; });
  s.post_send(4, SendOp::kWrite, 8);
  s.expect(read_request(0, 8));
  s.expect(fetch_add(1, 0));
  s.expect_silence();
  s.recv(read_only(0).bytes(8));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_silence();
  s.recv(atomic_ack(1, 5));
  s.expect_done(2, WcStatus::kSuccess);
  s.expect(write_only(2, 8));
  s.expect(write_only(3, 8));
}

// IBTA 9.7.5.2.1?: no more READs and atomics outstanding than max_rd_atomic.
TEST(MaxRdAtomic, BoundsWhatIsOutstanding) {
  Script s({.max_rd_atomic = 2});
  for (std::uint64_t id : {1u, 2u, 3u}) s.post_send(id, SendOp::kRead, 8);
  s.expect(read_request(0, 8));
  s.expect(read_request(1, 8));
  s.expect_silence();
  s.recv(read_only(0).bytes(8));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect(read_request(2, 8));
}

// IBTA 10.8.3.1 (unsignalled completions): successful ones are silent, and complete with those behind them.
TEST(Unsignaled, CompletesImplicitly) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8, unsignaled);
  s.post_send(2, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv(ack(0));
  s.expect_not_done();
  s.recv(ack(1));
  s.expect_done(2, WcStatus::kSuccess);
}

// IBTA 10.3.1.6 (ERR): everything queued is flushed, signalled or not, receives first, each queue in its order.
TEST(Err, FlushesEverything) {
  Script s;
  s.post_recv(11, 8);
  s.post_recv(12, 8);
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8, unsignaled);
  s.ignore_rest();
  s.move_to(QpState::kErr);
  for (std::uint64_t id : {11u, 12u, 1u, 2u}) s.expect_done(id, WcStatus::kWrFlushErr);
  s.post_recv(13, 8);
  s.post_send(3, SendOp::kWrite, 8);
  s.expect_done(13, WcStatus::kWrFlushErr);
  s.expect_done(3, WcStatus::kWrFlushErr);
  s.recv(send_only(0).bytes(1).ack_req());
  s.recv(ack(0));
  s.advance(1h);
  s.expect_silence();
}

// IBTA 10.3.1.5 (SQD): what was begun is finished, what is posted waits, and the drain is told of when asked.
TEST(Sqd, DrainsAndTells) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.move_to(QpState::kSqd, nic::kAttrEnSqdNotify, [](nic::QpAttr& a) { a.en_sqd_notify = true; });
  s.post_send(2, SendOp::kWrite, 8);
  s.expect_silence();
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_event(Event::Kind::kSqDrained);
  s.expect_silence();
  s.move_to(QpState::kRts);
  s.expect(write_only(1, 8));
}

// IBTA 10.3.1.5: the responder goes on in SQD.
TEST(Sqd, StillResponds) {
  Script s;
  s.move_to(QpState::kSqd);
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).msn(1));
}

// IBTA 9.2.3?: the solicited event bit goes with the last packet of a message that consumes a receive, and only there.
TEST(SolicitedEvent, GoesWithWhatTakesAReceive) {
  const auto solicited = [](nic::SendWr& wr) { wr.flags |= nic::kSolicited; };
  Script s;
  s.recv(ack(-1).credits(31));
  s.post_send(1, SendOp::kSend, 2 * kMtu, solicited);
  s.expect(send_first(0).solicited(false));
  s.expect(send_last(1).solicited());
  s.post_send(2, SendOp::kWriteImm, 8, solicited);
  s.expect(write_only_imm(2, 8).solicited());
  s.post_send(3, SendOp::kWrite, 8, solicited);
  s.expect(write_only(3, 8).solicited(false));
}

// IBTA 9.9.3.1.?: a message longer than the receive is an invalid request to the peer, a length error here.
TEST(Receive, TooShort) {
  Script s;
  s.post_recv(7, 10);
  s.recv(send_only(0).bytes(11).ack_req());
  s.expect(nak(0, NakCode::kInvalidRequest));
  s.expect_done(7, WcStatus::kLocLenErr);
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_state(QpState::kErr);
}

// IBTA 9.9.3.1.?: a receive that cannot be written to is our own error: remote operational error, protection error
// here.
TEST(Receive, WithAWrongKey) {
  Script s;
  s.post_recv(7, std::vector<nic::Sge>{{Script::kVa, 100, 0xDEAD00}});
  s.recv(send_only(0).bytes(10).ack_req());
  s.expect(nak(0, NakCode::kRemoteOperationalError));
  s.expect_done(7, WcStatus::kLocProtErr);
  s.expect_event(Event::Kind::kQpFatal);
  s.expect_state(QpState::kErr);
}

// IBTA 9.9.2.1, 11.6.2: a WR whose memory is not ours fails when its turn has come; those before it complete.
TEST(LocalError, WaitsForItsTurn) {
  const nic::Sge bad[] = {{Script::kVa, 8, 0xDEAD00}};
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8, [&bad](nic::SendWr& wr) { wr.sges = bad; });
  s.post_send(3, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.expect_silence();
  s.expect_not_done();
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kLocProtErr);
  s.expect_done(3, WcStatus::kWrFlushErr);
  s.expect_silence();
}

// IBTA 11.6.3.?: a CQ that overflows is dead, and its QPs with it.
TEST(CqOverflow, KillsCqAndQp) {
  Script s({.cqe = 1});
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv_together({ack(0), ack(1)});
  s.expect_state(QpState::kErr);
  s.ignore_rest();
}

// IBTA 11.6.3.?: the first packet that arrives in RTR tells that communication is established, once.
TEST(CommunicationEstablished, IsToldOnce) {
  Script s({.state = QpState::kRtr});
  s.recv(write_only(0, 8).ack_req());
  s.recv(write_only(1, 8).ack_req());
  s.expect_event(Event::Kind::kCommEst);
  s.expect(ack(0));
  s.expect(ack(1));
}

}  // namespace
}  // namespace uroce::test::rules
