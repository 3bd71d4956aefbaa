// SPDX-License-Identifier: Apache-2.0
// What a QP that breaks still sends (IBTA Vol 1, 9.9.2, 10.3.1.?): nothing from memory that its program has back.
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

TEST(BrokenRequester, AnswersNoRead) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv_together({read_request(0, 3 * kMtu), send_only(3).ack_req(), nak(0, NakCode::kRemoteAccessError)});
  s.expect_done(1, WcStatus::kRemAccessErr);
  s.expect_state(QpState::kErr);
  s.expect_silence();
}

TEST(BrokenRequester, AcknowledgesWhatItHasTaken) {
  Script s;
  s.post_recv(9, 8);
  s.post_send(1, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv_together({send_only(0).ack_req(), nak(0, NakCode::kRemoteAccessError)});
  s.expect_done(9, WcStatus::kSuccess);
  s.expect_done(1, WcStatus::kRemAccessErr);
  s.expect(ack(0));
}

TEST(BrokenQp, AnswersNoRead) {
  Script s;
  s.recv_and_keep_answer(read_request(0, 3 * kMtu));
  ASSERT_TRUE(s.nic.break_qp(s.qp->qpn()));
  s.recv_together({});
  s.expect_event(Event::Kind::kQpFatal);
  s.expect_silence();
}

/// The next packet that the NIC has, if any, is sent and lost.
bool sends(Script& s) {
  std::array<std::uint8_t, proto::kMaxPacketSize> frame;
  return s.nic.poll_transmit({}, frame).has_value();
}

// Requests are executed in order: a READ is answered before the QP breaks over what came behind it.
TEST(BadRequest, BreaksTheQpBehindTheAnswersToReads) {
  Script s;
  s.post_recv(9, 8);
  s.recv_and_keep_answer(read_request(0, 2 * kMtu));
  s.recv_and_keep_answer(write_only(2, 8).rkey(0xBAD));
  s.recv_and_keep_answer(send_only(2).bytes(8));  // Not taken, as it is behind the bad one.
  s.expect_state(QpState::kRts);
  EXPECT_TRUE(sends(s));
  s.expect_state(QpState::kRts);
  EXPECT_TRUE(sends(s));
  s.expect_state(QpState::kErr);
  s.recv_together({});
  s.expect_event(Event::Kind::kQpAccessErr);
  s.expect_done(9, WcStatus::kWrFlushErr);
  s.expect(nak(2, NakCode::kRemoteAccessError));
}

// Who polls an error finds the QP in ERR.
TEST(BadRequest, FailsItsReceiveWhenTheQpBreaks) {
  Script s;
  s.post_recv(8, 8);
  s.post_recv(9, 8);
  s.recv_and_keep_answer(read_request(0, 2 * kMtu));
  s.recv_and_keep_answer(send_only(2).bytes(12));
  EXPECT_TRUE(sends(s));
  EXPECT_EQ(s.cq->size(), 0u);
  EXPECT_TRUE(sends(s));
  s.expect_state(QpState::kErr);
  s.recv_together({});
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_done(8, WcStatus::kLocLenErr);
  s.expect_done(9, WcStatus::kWrFlushErr);
  s.expect(nak(2, NakCode::kInvalidRequest));
}

}  // namespace
}  // namespace uroce::test::rules
