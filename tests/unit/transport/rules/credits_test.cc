// SPDX-License-Identifier: Apache-2.0
// End-to-end flow control (IBTA Vol 1, 9.7.7.2).
#include "tests/unit/transport/rules/script.h"
#include "verbs/nic/transport/rc/requester.h"

namespace uroce::test::rules {
namespace {

// --- responder ------------------------------------------------------------------------------------------------------

// IBTA 9.7.7.2, table "End-to-End Flow Control Credit Encoding": the number of posted receives, rounded down.
TEST(ResponderCredits, ACountIsRoundedDownToACode) {
  Script s({.max_wr = 2000});
  for (std::uint32_t posted = 1; posted < 2000; ++posted) {
    s.post_recv(posted, 8);
    s.recv(write_only(posted - 1, 8).ack_req());
    std::uint8_t code = 30;
    while (proto::kCredits[code] > posted) --code;
    s.expect(ack(posted - 1).msn(posted).credits(code));
  }
}

// IBTA 9.7.7.2: the last codes, with the largest receive queue that there is.
TEST(ResponderCredits, TheLargestQueueHasTheLargestCode) {
  Script s({.max_wr = nic::kMaxQpWr});
  for (std::uint32_t i = 0; i < nic::kMaxQpWr; ++i) s.post_recv(i, 8);
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).credits(30));
}

// IBTA 9.7.7.2: credits and MSN of an AETH belong together; a SEND under way still holds its receive.
TEST(ResponderCredits, ASendUnderWayCountsUntilItsMessageCounts) {
  Script s;
  s.post_recv(7, 4096);
  s.recv(send_first(0).bytes(kMtu).ack_req());
  s.expect(ack(0).msn(0).credits(1));
  s.recv(send_last(1).bytes(1).ack_req());
  s.expect(ack(1).msn(1).credits(0));
  s.expect_done(7, WcStatus::kSuccess);
}

// IBTA 9.7.7.2: READ responses and atomic acknowledgements carry credits too.
TEST(ResponderCredits, EveryAethCarriesThem) {
  Script s;
  for (std::uint64_t i : {1u, 2u, 3u}) s.post_recv(i, 8);
  s.recv(read_request(0, 3 * kMtu));
  s.expect(read_first(0).msn(1).credits(3));
  s.expect(read_middle(1));
  s.expect(read_last(2).msn(1).credits(3));
  s.recv(read_request(3, 1));
  s.expect(read_only(3).msn(2).credits(3));
  s.recv(fetch_add(4, 1));
  s.expect(atomic_ack(4, 0).msn(3).credits(3));
}

// IBTA 9.7.7.2: 31 stands for "not counted".
TEST(ResponderCredits, SwitchedOffMeansUnlimited) {
  Script s({.credits = false});
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).credits(31));
}

// IBTA 9.7.7.2 (unsolicited acknowledge): who has used up what it was told of hears of new receives.
TEST(ResponderCredits, AReceivePostedAfterTheLastCreditIsAnnounced) {
  Script s;
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).msn(1).credits(0));
  s.post_recv(7, 8);
  s.expect(ack(0).msn(1).credits(1));
  s.post_recv(8, 8);
  s.expect_silence();
}

// IBTA 9.7.7.2: no announcement before the peer has sent anything, nor from a QP in error.
TEST(ResponderCredits, NothingIsAnnouncedUnasked) {
  Script s;
  s.post_recv(7, 8);
  s.expect_silence();
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).credits(1));
  s.recv(send_only(1).bytes(8).ack_req());
  s.expect(ack(1).credits(0));
  s.expect_done(7, WcStatus::kSuccess);
  s.move_to(QpState::kErr);
  s.post_recv(8, 8);
  s.expect_done(8, WcStatus::kWrFlushErr);
  s.expect_silence();
}

// --- requester ------------------------------------------------------------------------------------------------------

// IBTA 9.7.7.2: a new connection has no credits; its first message is limited.
TEST(RequesterCredits, TheFirstSendIsTriedAndTheSecondWaits) {
  Script s;
  s.post_send(1, SendOp::kSend, 3 * kMtu);
  s.post_send(2, SendOp::kSend, 8);
  s.expect(send_first(0).ack_req());
  s.expect_silence();
  s.recv(ack(0).msn(0).credits(2));
  s.expect(send_middle(1).ack_req(false));
  s.expect(send_last(2).ack_req());
  s.expect(send_only(3).ack_req());
  s.recv(ack(3).msn(2).credits(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kSuccess);
}

// IBTA 9.7.7.2: one limited request at a time, however long the peer takes.
TEST(RequesterCredits, OnlyOneRequestGoesBeyondTheLimit) {
  Script s({.timeout = 0});
  for (std::uint64_t i : {1u, 2u, 3u}) s.post_send(i, SendOp::kSend, 8);
  s.expect(send_only(0).ack_req());
  s.advance(1s);
  s.expect_silence();
  s.recv(ack(0).msn(1).credits(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.advance(1s);
  s.expect(send_only(1).ack_req());
}

// IBTA 9.7.7.2: 31 lifts the limit, for good.
TEST(RequesterCredits, UnlimitedPeersAreNotLimited) {
  Script s;
  s.post_send(0, SendOp::kSend, 8);
  s.recv(ack(0).msn(1).credits(31));
  for (std::uint64_t i = 1; i <= 20; ++i) s.post_send(i, SendOp::kSend, 8);
  for (int psn = 0; psn <= 20; ++psn) s.expect(send_only(psn));
  s.recv(ack(20).msn(21).credits(0));
  for (std::uint64_t i = 0; i <= 20; ++i) s.expect_done(i, WcStatus::kSuccess);
  s.post_send(21, SendOp::kSend, 8);
  s.post_send(22, SendOp::kSend, 8);
  s.expect(send_only(21));
  s.expect(send_only(22));
  s.ignore_rest();
}

/// A script whose peer has acknowledged one WRITE, with a credit code.
void hear_credits(Script& s, std::uint8_t code) {
  s.post_send(100, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.recv(ack(0).msn(1).credits(code));
  s.expect_done(100, WcStatus::kSuccess);
}

// IBTA 9.7.7.2: SSN <= MSN + credits.
TEST(RequesterCredits, AsManySendsAsCredits) {
  for (std::uint8_t code = 1; code < 16; ++code) {
    Script s({.max_wr = 256});
    hear_credits(s, code);
    const int credits = proto::kCredits[code];
    for (int i = 0; i <= credits; ++i) s.post_send(static_cast<std::uint64_t>(i), SendOp::kSend, 8);
    for (int i = 0; i < credits; ++i) s.expect(send_only(1 + i));
    s.expect_silence();
    s.recv(ack(credits).msn(1u + static_cast<std::uint32_t>(credits)).credits(0));
    for (int i = 0; i < credits; ++i) s.expect_done(static_cast<std::uint64_t>(i), WcStatus::kSuccess);
    s.expect_silence();
    s.ignore_rest();
  }
}

// IBTA 9.7.7.2: RDMA WRITE, READ and atomics take no receive and need no credit, but count as messages.
TEST(RequesterCredits, OnlyWhatTakesAReceiveNeedsOne) {
  Script s;
  hear_credits(s, 1);
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kRead, 8);
  s.post_send(3, SendOp::kFetchAdd, 8);
  s.post_send(4, SendOp::kSend, 8);
  s.post_send(5, SendOp::kWrite, 8);
  s.post_send(6, SendOp::kWriteImm, 8);
  s.expect(write_only(1, 8));
  s.expect(read_request(2, 8));
  s.expect(packet(Opcode::kRcFetchAdd, 3));
  s.expect(send_only(4));
  s.expect(write_only(5, 8));
  s.expect_silence();
  s.recv(ack(1).msn(2).credits(1));
  s.recv(read_only(2).bytes(8).msn(3).credits(1));
  s.recv(atomic_ack(3, 0).msn(4).credits(1));
  for (std::uint64_t id : {1u, 2u, 3u}) s.expect_done(id, WcStatus::kSuccess);
  s.expect_silence();
  s.recv(ack(5).msn(6).credits(1));
  s.expect_done(4, WcStatus::kSuccess);
  s.expect_done(5, WcStatus::kSuccess);
  s.expect(write_only_imm(6, 8));
  s.ignore_rest();
}

// IBTA 9.7.7.2: a READ that goes out in pieces is several messages to the responder.
TEST(RequesterCredits, EveryPieceOfALongReadIsAMessage) {
  Script s({.mtu_code = 5});
  s.post_send(1, SendOp::kRead, 2 * nic::kReadPieceBytes);
  s.expect(read_request(0, nic::kReadPieceBytes));
  s.ignore_rest();
  for (int psn = 0; psn < 32; ++psn) {
    const int i = psn % 16;
    Pkt p = i == 0 ? read_first(psn) : i == 15 ? read_last(psn) : read_middle(psn);
    s.recv(std::move(p).bytes(4096).msn(psn < 16 ? 1 : 2).credits(2));
  }
  s.ignore_rest();
  s.post_send(2, SendOp::kSend, 8);
  s.post_send(3, SendOp::kSend, 8);
  s.post_send(4, SendOp::kSend, 8);
  s.expect(send_only(32));
  s.expect(send_only(33));
  s.expect_silence();
  s.ignore_rest();
}

// IBTA 9.7.7.2 (unsolicited acknowledge): an ACK said again may bring credits.
TEST(RequesterCredits, ARepeatedAckBringsCredits) {
  Script s;
  hear_credits(s, 0);
  s.post_send(1, SendOp::kSend, 8);
  s.expect_silence();
  s.advance(50us);
  s.recv(ack(0).msn(1).credits(2));
  EXPECT_EQ(s.expect(send_only(1)), 50us) << "at once";
  s.ignore_rest();
}

// IBTA 9.7.7.2: the limited request; of a SEND only its first packet, with AckReq.
TEST(RequesterCredits, WithoutCreditOneRequestIsTriedAfterAWhile) {
  Script s;
  hear_credits(s, 0);
  s.post_send(1, SendOp::kSend, 2 * kMtu);
  s.post_send(2, SendOp::kSend, 8);
  s.expect_silence();
  s.advance(nic::kCreditPatience);
  EXPECT_EQ(s.expect(send_first(1).ack_req()), nic::kCreditPatience);
  s.expect_silence();
  s.recv(ack(1).msn(1).credits(0));  // There was a receive, or there would be an RNR NAK.
  s.expect(send_last(2).ack_req());
  s.expect_silence();
  s.ignore_rest();
}

// IBTA 9.7.7.2: a limited WRITE with immediate goes as a whole: it takes the receive at its end.
TEST(RequesterCredits, ALimitedWriteWithImmediateIsSentWhole) {
  Script s;
  hear_credits(s, 0);
  s.post_send(1, SendOp::kWriteImm, 2 * kMtu);
  s.post_send(2, SendOp::kSend, 8);
  s.advance(nic::kCreditPatience);
  s.expect(write_first(1, 2 * kMtu));
  s.expect(write_last_imm(2).ack_req());
  s.expect_silence();
  s.ignore_rest();
}

// IBTA 9.7.7.2 and 9.7.5.2.8: the limited request may draw an RNR NAK, and is repeated like any other.
TEST(RequesterCredits, ALimitedRequestThatDrawsAnRnrNakIsRepeated) {
  Script s;
  s.post_send(1, SendOp::kSend, 2 * kMtu);
  s.expect(send_first(0));
  s.recv(rnr_nak(0, 1));
  s.advance(10us);
  s.expect(send_first(0).ack_req());
  s.recv(ack(0).msn(0).credits(1));
  s.expect(send_last(1));
  s.recv(ack(1).msn(1).credits(0));
  s.expect_done(1, WcStatus::kSuccess);
}

// IBTA 9.7.7.2: credits once granted stay; an older count that arrives late takes none back.
TEST(RequesterCredits, CreditsAreNeverTakenBack) {
  Script s;
  hear_credits(s, 4);
  s.recv(ack(0).msn(1).credits(0));
  for (std::uint64_t i = 1; i <= 4; ++i) s.post_send(i, SendOp::kSend, 8);
  for (int psn = 1; psn <= 4; ++psn) s.expect(send_only(psn));
  s.ignore_rest();
}

/// (MSN that the peer claims, credit code): peers that say nonsense, or nothing useful.
class StubbornPeer : public testing::TestWithParam<std::pair<std::uint32_t, std::uint8_t>> {};

// IBTA 9.7.7.2: nothing that a peer says of credits stops the queue: the oldest message may always be tried.
TEST_P(StubbornPeer, CannotStopTheQueue) {
  Script s;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const int psn = static_cast<int>(i);
    s.post_send(i, SendOp::kSend, 8);
    s.advance(nic::kCreditPatience);
    s.expect(send_only(psn));
    s.recv(ack(psn).msn(GetParam().first).credits(GetParam().second));
    s.expect_done(i, WcStatus::kSuccess);
  }
}
INSTANTIATE_TEST_SUITE_P(All, StubbornPeer,
                         testing::Values(std::pair{0u, 0}, std::pair{0xFFFFFFu, 0}, std::pair{0x7FFFF8u, 30},
                                         std::pair{0x800000u, 0}, std::pair{1u, 0}, std::pair{0u, 31}));

// IBTA 9.7.7.2: an ACK that brought credits was lost; patience ends, and the request goes out.
TEST(RequesterCredits, ALostCreditIsSurvived) {
  Script s;
  hear_credits(s, 0);
  s.post_send(1, SendOp::kSend, 8);
  s.advance(1s);
  EXPECT_EQ(s.expect(send_only(1)), nic::kCreditPatience);
  s.ignore_rest();
}

// IBTA 9.7.7.2 and 9.7.1: MSN and SSN wrap at 24 bits on both sides.
TEST(Credits, MessageNumbersWrap) {
  nic::CreditLimit limit;
  nic::Ssn ssn{1};
  for (std::uint32_t i = 0; i < (1u << 24) + 1000; ++i, ++ssn) {
    if (limit.covers(ssn) || !limit.is_limited(ssn)) FAIL() << i;  // 17 million times: an ASSERT takes longer.
    limit.on_credits(ssn, 0);
  }
  EXPECT_EQ(ssn, nic::Ssn{1001});
}

}  // namespace
}  // namespace uroce::test::rules
