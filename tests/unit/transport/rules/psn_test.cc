// SPDX-License-Identifier: Apache-2.0
// Packet sequence numbers at the responder: expected, duplicate, out of sequence (IBTA Vol 1, 9.7.4.1.2 and 9.7.5.1).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

/// First PSN: in the middle of the number space, and where it wraps within the script.
class StartPsn : public testing::TestWithParam<std::uint32_t> {
 protected:
  Script s{{.rq_psn = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(All, StartPsn, testing::Values(0u, 1u, 0x100u, 0x7FFFFFu, 0x800000u, 0xFFFFFEu, 0xFFFFFFu));

// IBTA 9.7.4.1.2: the expected PSN is executed, and each one only once.
TEST_P(StartPsn, ExpectedIsExecuted) {
  for (int psn = 0; psn < 4; ++psn) {
    s.recv(fetch_add(psn, 1));
    s.expect(atomic_ack(psn, static_cast<std::uint64_t>(psn)).msn(static_cast<std::uint32_t>(psn) + 1));
  }
}

// IBTA 9.7.4.1.2: the 2^23 - 1 PSNs behind the expected one are out of sequence, the 2^23 before it duplicates.
TEST_P(StartPsn, TheNumberSpaceIsHalvedAroundTheExpected) {
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0));
  const std::int64_t expected = 1, half = 1 << 23;
  for (std::int64_t duplicate : {expected - 1, expected - 2, expected - half + 1, expected - half}) {
    s.recv(write_only(duplicate, 8).ack_req());
    s.expect(ack(0).msn(1));
  }
  EXPECT_EQ(s.nic.counters().duplicate_request, 4u);
  for (std::int64_t ahead : {expected + 1, expected + 2, expected + half - 1}) s.recv(write_only(ahead, 8).ack_req());
  EXPECT_EQ(s.nic.counters().out_of_seq_request, 3u);
  EXPECT_EQ(s.nic.counters().rcvd_writes, 1u);
  s.expect(sequence_nak(expected).msn(1));
  s.expect_silence();
}

// IBTA 9.7.5.1.1?: one NAK for a gap, for the expected PSN, then silence until that one arrives.
TEST_P(StartPsn, OneNakForAGap) {
  s.recv(write_only(1, 8).ack_req());
  s.expect(sequence_nak(0).msn(0));
  for (int psn = 1; psn < 50; ++psn) s.recv(write_only(psn, 8).ack_req());
  s.expect_silence();
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).msn(1));
  s.recv(write_only(2, 8).ack_req());
  s.expect(sequence_nak(1).msn(1));  // A new gap.
}

// IBTA 9.7.5.1.1?: nor is a gap said again when a duplicate comes in between.
TEST(ResponderPsn, ADuplicateDoesNotReopenTheGap) {
  Script s;
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0));
  s.recv(write_only(3, 8));
  s.expect(sequence_nak(1));
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0));
  s.recv(write_only(4, 8));
  s.expect_silence();
}

// IBTA 9.7.4.1.2: out of sequence comes before every other check: no fatal NAK for what is not the expected packet.
TEST(ResponderPsn, OutOfSequenceIsNeverFatal) {
  Script s;
  s.recv(read_request(5, 100).rkey(0xBAD));
  s.expect(sequence_nak(0));
  s.expect_state(QpState::kRts);
}

// IBTA 9.7.5.1.3?: a duplicate SEND or WRITE is acknowledged again, up to the newest, and has no effect.
TEST(ResponderPsn, DuplicatesOfSendAndWriteHaveNoEffect) {
  Script s;
  s.post_recv(7, 100);
  s.post_recv(8, 100, 1000);
  s.recv(send_only(0).bytes(10, 1).ack_req());
  s.recv(write_only(1, 10).at(200).bytes(10, 2).ack_req());
  s.expect(ack(0).msn(1));
  s.expect(ack(1).msn(2));
  s.expect_done(7, WcStatus::kSuccess);
  const auto before = s.memory;
  s.recv(send_only(0).bytes(10, 3).ack_req());
  s.expect(ack(1).msn(2));
  s.recv(write_only(1, 10).at(200).bytes(10, 4).ack_req());
  s.expect(ack(1).msn(2));
  s.recv(write_only(1, 10).at(200).bytes(10, 4).rkey(0xBAD));  // Not even looked at.
  s.expect(ack(1).msn(2));
  EXPECT_EQ(s.memory, before);
}

// IBTA 9.7.5.1.3?: a duplicate in the middle of a message says how far that message has come.
TEST(ResponderPsn, DuplicateWithinAMessage) {
  Script s;
  s.post_recv(7, 4096);
  s.recv(send_first(0).bytes(kMtu, 1));
  s.recv(send_middle(1).bytes(kMtu, 2));
  s.recv(send_first(0).bytes(kMtu, 9));
  s.expect(ack(1).msn(0));
  s.recv(send_last(2).bytes(1, 3).ack_req());
  s.expect(ack(2).msn(1));
  EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).byte_len, 2 * kMtu + 1);
  EXPECT_EQ(s.memory[0], 1);
  EXPECT_EQ(s.memory[kMtu], 2);
}

// IBTA 9.7.5.1.3?: the ACK of a duplicate does not claim a READ or atomic behind it: its answer may be what was lost.
TEST(ResponderPsn, AckOfADuplicateStopsBeforeTheNextRead) {
  Script s;
  s.recv(write_only(0, 8));
  s.recv(read_request(1, 8));
  s.expect(read_only(1).msn(2));
  s.recv(write_only(0, 8));
  s.expect(ack(0).msn(2));
}

// IBTA 9.7.5.1: a duplicate while the NAK for a gap is still to be sent does not replace it.
TEST(ResponderPsn, ADuplicateDoesNotHideTheNak) {
  Script s;
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0));
  s.recv_together({write_only(2, 8), write_only(0, 8)});
  s.expect(sequence_nak(1));
}

// IBTA 9.7.5.1: the missing packet comes before the NAK is sent: the NAK asks for what is missing now.
TEST(ResponderPsn, ALatePacketMovesTheNak) {
  Script s;
  s.recv_together({write_only(5, 8), write_only(0, 8).ack_req(), write_only(1, 8), write_only(2, 8).ack_req()});
  s.expect(sequence_nak(3).msn(3));
  s.recv(write_only(6, 8));
  s.expect_silence();  // It has been said.
  s.recv(write_only(3, 8).ack_req());
  s.expect(ack(3).msn(4));
}

// IBTA 9.7.5.1: and when nothing is missing any more, there is nothing to complain of.
TEST(ResponderPsn, LatePacketsTakeBackTheNak) {
  Script s;
  s.recv_together({write_only(1, 8), write_only(0, 8), write_only(1, 8)});
  s.expect(ack(1).msn(2));
  s.recv_together({write_only(3, 8), read_request(2, 8), fetch_add(3, 1)});
  s.expect(read_only(2));
  s.expect(atomic_ack(3, 0xEEEEEEEEEEEEEEEE));
  s.recv(write_only(5, 8));
  s.expect(sequence_nak(4).msn(4));
}

// IBTA 9.7.1: MSN and PSN are 24 bits; the MSN counts messages, not packets.
TEST(ResponderPsn, MsnCountsMessages) {
  Script s;
  s.recv(write_first(0, 2 * kMtu).bytes(kMtu).ack_req());
  s.expect(ack(0).msn(0));
  s.recv(write_last(1).bytes(kMtu).ack_req());
  s.expect(ack(1).msn(1));
  s.recv(read_request(2, 3 * kMtu));
  s.expect(read_first(2).msn(2));
  s.expect(read_middle(3));
  s.expect(read_last(4).msn(2));
  s.recv(fetch_add(5, 1).at(8192));
  s.expect(atomic_ack(5, 0).msn(3));
}

}  // namespace
}  // namespace uroce::test::rules
