// SPDX-License-Identifier: Apache-2.0
// What a requester makes of responses (IBTA Vol 1, 9.7.5.1, 9.7.6, 9.9.2).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

// IBTA 9.7.5.1.2: one ACK acknowledges everything up to its PSN; completions come in the order of posting.
TEST(Ack, Coalesces) {
  Script s;
  for (std::uint64_t id : {1u, 2u, 3u}) s.post_send(id, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv(ack(2));
  for (std::uint64_t id : {1u, 2u, 3u}) s.expect_done(id, WcStatus::kSuccess);
}

// What waited for the program's next post goes out before it: the peer's completions come in the order of what
// happened.
TEST(AnswerFirst, BeforeWhatIsPostedLater) {
  Script s;
  s.post_recv(1, 64);
  s.recv_and_keep_answer(send_only(0).ack_req());
  s.post_send(2, SendOp::kWrite, 3 * kMtu);
  s.expect(ack(0));
  s.expect(write_first(0, 3 * kMtu));
  s.expect(write_middle(1));
  s.expect(write_last(2));
  s.expect_done(1, WcStatus::kSuccess);
  s.recv(ack(2));
  s.expect_done(2, WcStatus::kSuccess);
}

// IBTA 9.7.3.?: the last packet of a message asks for an ACK, and in a long one so does every sixteenth.
TEST(AckRequest, AtTheEndOfAMessageAndNowAndThen) {
  Script s;
  s.post_send(1, SendOp::kWrite, 40 * kMtu);
  s.expect(write_first(0, 40 * kMtu).ack_req(false));
  for (int i = 1; i < 39; ++i) s.expect(write_middle(i).ack_req(i % 16 == 15));
  s.expect(write_last(39).ack_req());
}

// IBTA 9.7.6.1: responses outside of what is outstanding ("ghosts") and repeated ones are ignored.
TEST(GhostAck, IsIgnored) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8);
  s.ignore_rest();
  for (const std::int64_t psn : {-1, -100, 2, 100, 0x7FFFFF, -0x800000}) {
    s.recv(ack(psn));
    s.recv(nak(psn, NakCode::kRemoteAccessError));
    s.recv(rnr_nak(psn, 1));
  }
  s.expect_not_done();
  s.expect_silence();
  s.recv(ack(0));
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_not_done();
}

// IBTA 9.7.5.1.?: syndromes that do not exist say nothing.
TEST(ReservedSyndrome, IsIgnored) {
  Script s;
  std::uint64_t sent = 0;
  s.post_send(1, SendOp::kWrite, 8);
  s.ignore_rest();
  for (int syndrome = 0; syndrome < 256; ++syndrome) {
    const bool is_defined = syndrome < 0x40 || (syndrome >= 0x60 && syndrome <= 0x64);
    if (is_defined) continue;
    s.recv(ack(0).syndrome(static_cast<std::uint8_t>(syndrome)));
    ++sent;
  }
  EXPECT_EQ(s.nic.counters().parse_errors, sent);
  s.expect_not_done();
  s.expect_silence();
}

// IBTA 9.7.5.2.?: NAK "PSN sequence error" acknowledges what is before its PSN; the rest is sent again, from
// mid-message on.
TEST(SequenceNak, GoesBackToItsPsn) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 3 * kMtu);
  s.ignore_rest();
  s.recv(sequence_nak(2));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect(write_middle(2));
  s.expect(write_last(3).ack_req());
  s.expect_silence();
}

// A responder says it once for a gap (9.7.5.1.4?): a copy costs no second retry, even when we have sent again
// meanwhile.
TEST(SequenceNak, CountsOnceUntilThereIsProgress) {
  Script s({.retry_cnt = 2});
  s.post_send(1, SendOp::kWrite, 2 * kMtu);
  s.ignore_rest();
  s.recv(sequence_nak(0));
  s.expect(write_first(0, 2 * kMtu));
  s.expect(write_last(1).ack_req());
  s.recv(sequence_nak(0));
  s.expect_silence();
  s.recv(sequence_nak(1));  // A gap behind what is new.
  s.expect(write_last(1).ack_req());
  s.recv(ack(1));
  s.expect_done(1, WcStatus::kSuccess);
}

struct Fatal {
  NakCode code;
  WcStatus status;
};
class FatalNak : public testing::TestWithParam<Fatal> {};

// IBTA 9.9.2.2: what is before completes, the refused WR reports, the rest is flushed, and the QP is silent.
TEST_P(FatalNak, FailsItsWr) {
  Script s;
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8, [](nic::SendWr& wr) { wr.flags = 0; });  // An error always completes.
  s.post_send(3, SendOp::kWrite, 8);
  s.post_recv(9, 8);
  s.ignore_rest();
  s.recv(nak(1, GetParam().code));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, GetParam().status);
  s.expect_done(9, WcStatus::kWrFlushErr);
  s.expect_done(3, WcStatus::kWrFlushErr);
  s.expect_state(QpState::kErr);
  s.advance(1h);
  s.expect_silence();
}
INSTANTIATE_TEST_SUITE_P(Codes, FatalNak,
                         testing::Values(Fatal{NakCode::kInvalidRequest, WcStatus::kRemInvReqErr},
                                         Fatal{NakCode::kRemoteAccessError, WcStatus::kRemAccessErr},
                                         Fatal{NakCode::kRemoteOperationalError, WcStatus::kRemOpErr},
                                         Fatal{NakCode::kInvalidRdRequest, WcStatus::kBadRespErr}));

// IBTA 9.7.5.2.1: a READ takes as many PSNs as its response has packets, and at least one.
TEST(Read, ReservesThePsnsOfItsResponse) {
  Script s;
  s.post_send(1, SendOp::kRead, 2 * kMtu + 1);
  s.post_send(2, SendOp::kRead, 0);
  s.post_send(3, SendOp::kWrite, 8);
  s.expect(read_request(0, 2 * kMtu + 1).ack_req());
  s.expect(read_request(3, 0).ack_req());
  s.expect(write_only(4, 8).ack_req());
}

// IBTA 9.7.5.1.?: data is taken in the order of PSNs; repeated packets change nothing.
TEST(ReadResponse, RepeatedPacketsChangeNothing) {
  Script s;
  s.post_send(1, SendOp::kRead, 2 * kMtu);
  s.expect(read_request(0, 2 * kMtu));
  s.recv(read_first(0).bytes(kMtu, 1));
  s.recv(read_first(0).bytes(kMtu, 2));
  EXPECT_EQ(s.memory[0], 1);
  s.recv(read_last(1).bytes(kMtu, 3));
  s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(s.memory[kMtu - 1], 1);
  EXPECT_EQ(s.memory[kMtu], 3);
}

// IBTA 9.7.5.1.2 (implied NAK), 9.7.5.2.1: after a gap the rest is asked for once, with address and length moved.
TEST(ReadResponse, AfterAGapTheRestIsAskedForOnce) {
  Script s;
  s.post_send(1, SendOp::kRead, 4 * kMtu);
  s.expect(read_request(0, 4 * kMtu).at(0));
  s.recv(read_first(0).bytes(kMtu, 1));
  s.recv(read_middle(2).bytes(kMtu, 3));
  s.expect(read_request(1, 3 * kMtu).at(kMtu));
  s.recv(read_last(3).bytes(kMtu, 4));
  s.expect_silence();
  s.recv(read_first(1).bytes(kMtu, 2));
  s.recv(read_middle(2).bytes(kMtu, 3));
  s.recv(read_last(3).bytes(kMtu, 4));
  s.expect_done(1, WcStatus::kSuccess);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(s.memory[i * kMtu], i + 1);
}

// IBTA 9.9.2.1 (bad response): FIRST and ONLY stand where a request began, also one that asked for the rest.
TEST(ReadResponse, BeginsWhereARequestBegan) {
  for (const bool asked_again : {false, true}) {
    Script s;
    s.post_send(1, SendOp::kRead, 3 * kMtu);
    s.ignore_rest();
    s.recv(read_first(0).bytes(kMtu, 1));
    if (asked_again) {
      s.recv(read_last(2).bytes(kMtu, 3));
      s.expect(read_request(1, 2 * kMtu).at(kMtu));
    }
    s.recv(read_first(1).bytes(kMtu, 2));
    s.recv(read_last(2).bytes(kMtu, 3));
    s.expect_done(1, asked_again ? WcStatus::kSuccess : WcStatus::kBadRespErr);
  }
}

// IBTA 9.7.5.1.2 ?: what was asked for again may go on with MIDDLE: Soft-RoCE does, or it was asked for before.
TEST(ReadResponse, GoesOnWithMiddleAfterAGap) {
  Script s;
  s.post_send(1, SendOp::kRead, 4 * kMtu);
  s.ignore_rest();
  s.recv(read_first(0).bytes(kMtu, 1));
  s.recv(read_middle(2).bytes(kMtu, 3));
  s.expect(read_request(1, 3 * kMtu).at(kMtu));
  s.recv(read_middle(1).bytes(kMtu, 2));
  s.recv(read_middle(2).bytes(kMtu, 3));
  s.recv(read_last(3).bytes(kMtu, 4));
  s.expect_done(1, WcStatus::kSuccess);
}

// IBTA 9.7.5.1.2: an ACK beyond a READ or atomic that has not been answered implies that the answer was lost.
TEST(ImpliedNak, RepeatsFromTheUnansweredRequest) {
  for (const SendOp op : {SendOp::kRead, SendOp::kFetchAdd}) {
    Script s;
    s.post_send(1, SendOp::kWrite, 8);
    s.post_send(2, op, 8);
    s.post_send(3, SendOp::kWrite, 8);
    s.ignore_rest();
    s.recv(ack(2));
    s.expect_done(1, WcStatus::kSuccess);
    s.expect_not_done();
    s.expect(op == SendOp::kRead ? read_request(1, 8) : fetch_add(1, 0));
    s.expect(write_only(2, 8));
    s.recv(op == SendOp::kRead ? read_only(1).bytes(8) : atomic_ack(1, 5));
    s.expect_done(2, WcStatus::kSuccess);
    s.recv(ack(2));
    s.expect_done(3, WcStatus::kSuccess);
  }
}

// IBTA 9.7.5.1.2: a plain ACK never completes a READ or an atomic.
TEST(PlainAck, CompletesNoReadAndNoAtomic) {
  for (const SendOp op : {SendOp::kRead, SendOp::kFetchAdd, SendOp::kCompareSwap}) {
    Script s;
    s.post_send(1, op, 8);
    s.ignore_rest();
    s.recv(ack(0));
    s.expect_not_done();
    s.ignore_rest();
  }
}

struct Bad {
  const char* name;
  SendOp op;
  std::uint32_t length;
  Pkt answer;
};
class BadResponse : public testing::TestWithParam<Bad> {};

constexpr std::uint8_t kRemoteAccess = 0x62, kRnr = 0x24, kReserved = 0x5F;

// IBTA 9.9.2.1 (bad response): an answer of another kind, size or position than the request's, or data with a refusal.
TEST_P(BadResponse, EndsTheConnection) {
  Script s;
  s.post_send(1, GetParam().op, GetParam().length);
  s.ignore_rest();
  s.recv(GetParam().answer);
  s.expect_done(1, WcStatus::kBadRespErr);
  s.expect_state(QpState::kErr);
  s.expect_silence();
  EXPECT_EQ(s.memory, Memory(s.memory.size())) << "nothing was written";
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, BadResponse,
    testing::Values(Bad{"DataForAWrite", SendOp::kWrite, 8, read_only(0).bytes(8)},
                    Bad{"AtomicAckForAWrite", SendOp::kWrite, 8, atomic_ack(0, 1)},
                    Bad{"DataForAnAtomic", SendOp::kFetchAdd, 8, read_only(0).bytes(8)},
                    Bad{"AtomicAckForARead", SendOp::kRead, 8, atomic_ack(0, 1)},
                    Bad{"TooShort", SendOp::kRead, 8, read_only(0).bytes(7)},
                    Bad{"TooLong", SendOp::kRead, 8, read_only(0).bytes(9)},
                    Bad{"EndsTooEarly", SendOp::kRead, 2 * kMtu, read_only(0).bytes(kMtu)},
                    Bad{"EndsTooLate", SendOp::kRead, 8, read_first(0).bytes(8)},
                    Bad{"BeginsWithMiddle", SendOp::kRead, 2 * kMtu, read_middle(0).bytes(kMtu)},
                    Bad{"LastInPlaceOfOnly", SendOp::kRead, 8, read_last(0).bytes(8)},
                    Bad{"DataWithANak", SendOp::kRead, 8, read_only(0).bytes(8, 0xAB).syndrome(kRemoteAccess)},
                    Bad{"DataWithAnRnrNak", SendOp::kRead, 8, read_only(0).bytes(8, 0xAB).syndrome(kRnr)},
                    Bad{"DataWithAReservedSyndrome", SendOp::kRead, 8, read_only(0).bytes(8, 0xAB).syndrome(kReserved)},
                    Bad{"FirstDataWithANak", SendOp::kRead, 2 * kMtu,
                        read_first(0).bytes(kMtu, 0xAB).syndrome(kRemoteAccess)},
                    Bad{"AtomicAckWithANak", SendOp::kFetchAdd, 8, atomic_ack(0, 1).syndrome(kRemoteAccess)},
                    Bad{"AtomicAckWithAnRnrNak", SendOp::kCompareSwap, 8, atomic_ack(0, 1).syndrome(kRnr)}),
    [](const testing::TestParamInfo<Bad>& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace uroce::test::rules
