// SPDX-License-Identifier: Apache-2.0
// What a QP makes of IPv4 Identifications (docs/adr/0006): some peers number their packets (rxe), some send 0 (uroce).
// From a peer that sends 0, everything else is damage; nobody but the peer may teach us that it does.
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr int kProof = 3;  // Packets in a row under 0.

/// Three packets under Identification 0 must not keep the QP from hearing its peer, which numbers its packets.
void expect_hears_numbers(Script& s) {
  s.recv(write_only(0, 8).ack_req().ip_id(0x1234));
  s.expect(ack(0).msn(1));
  EXPECT_EQ(s.nic.counters().icrc_errors, 0u);
}

// From a peer that sends 0, another Identification is a damaged packet.
TEST(Identification, OfAPeerThatSendsZero) {
  Script s;
  for (int psn = 0; psn < kProof; ++psn) {
    s.recv(write_only(psn, 8).ack_req());
    s.expect(ack(psn));
  }
  s.recv(write_only(kProof, 8).ack_req().ip_id(0x1234));
  s.expect_silence();
  EXPECT_EQ(s.nic.counters().icrc_errors, 1u);
}

// A connected QP hears only its peer (IBTA Vol 1, 9.6.1), also about this.
TEST(Identification, IsNotLearntFromStrangers) {
  for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcAcknowledge}) {
    Script s;
    proto::Path path = s.path_to_us();
    path.source = proto::Gid::from_v4(192, 0, 2, 66);
    for (int i = 0; i < 2 * kProof; ++i) s.recv_on(path, packet(opcode, 0));
    EXPECT_EQ(s.nic.counters().wrong_source, 2u * kProof);
    expect_hears_numbers(s);
  }
}

// Nor from a sender that borrows the peer's address, but does not know the PSN.
TEST(Identification, IsNotLearntFromRequestsOutOfSequence) {
  Script s;
  for (int i = 0; i < kProof; ++i) s.recv(write_only(1000 + i, 8));
  s.expect(sequence_nak(0));
  for (int i = 0; i < kProof; ++i) s.recv(read_request(-1000 - i, 8));
  expect_hears_numbers(s);
}

TEST(Identification, IsNotLearntFromResponsesToNothing) {
  Script s;
  for (int i = 0; i < kProof; ++i) s.recv(ack(i));
  expect_hears_numbers(s);
}

TEST(Identification, IsNotLearntFromWhatTheStateRefuses) {
  Script s({.state = QpState::kRtr});
  for (int i = 0; i < kProof; ++i) s.recv(ack(-1));
  s.recv(write_only(0, 8).ack_req().ip_id(0x1234));
  s.expect(ack(0));
  s.expect_event(Event::Kind::kCommEst);
}

TEST(Identification, IsNotLearntOutOfSequenceByUc) {
  Script s({.type = nic::QpType::kUc});
  s.post_recv(1, 100);
  for (int i = 0; i < kProof; ++i) s.recv(packet(Opcode::kUcSendMiddle, 1000 - 2 * i));
  s.recv(packet(Opcode::kUcSendOnly, 5).bytes(8).ip_id(0x1234));
  s.expect_done(1, WcStatus::kSuccess);
}

// Responses teach as well: a requester alone learns from the answers to its requests.
TEST(Identification, IsLearntFromResponses) {
  Script s;
  for (int psn = 0; psn <= kProof; ++psn) {
    s.post_send(1, SendOp::kWrite, 8);
    s.expect(write_only(psn, 8));
    s.recv(ack(psn).ip_id(psn == kProof ? 0x1234 : 0));
    if (psn < kProof) s.expect_done(1, WcStatus::kSuccess);
  }
  s.expect_not_done();
  EXPECT_EQ(s.nic.counters().icrc_errors, 1u);
}

// From a peer that counts, a number far from the last one is a damaged packet; and the peer goes on where it was.
TEST(Identification, OfAPeerThatCounts) {
  Script s;
  s.recv(write_only(0, 8).ack_req().ip_id(0x8000));
  s.expect(ack(0));
  s.recv(write_only(1, 8).ack_req().ip_id(0x9000));
  s.expect_silence();
  EXPECT_EQ(s.nic.counters().icrc_errors, 1u);
  s.recv(write_only(1, 8).ack_req().ip_id(0x8005));
  s.expect(ack(1));
  s.recv(write_only(2, 8).ack_req().ip_id(0x8003));  // Has been overtaken.
  s.expect(ack(2));
}

// It may have sent much elsewhere, or not count at all: what looks like damage twice is none.
TEST(Identification, IsBelievedTheSecondTime) {
  Script s;
  s.recv(write_only(0, 8).ack_req().ip_id(0x8000));
  s.expect(ack(0));
  s.recv(write_only(1, 8).ack_req().ip_id(0x1000));
  s.expect_silence();
  s.recv(write_only(1, 8).ack_req().ip_id(0x1001));
  s.expect(ack(1));
  s.recv(write_only(2, 8).ack_req().ip_id(0x1002));
  s.expect(ack(2));
}

// All QPs of a peer share its counter.
TEST(Identification, IsCountedPerPeer) {
  Script s;
  s.recv(write_only(0, 8).ack_req().ip_id(0x8000));
  s.expect(ack(0));
  s.advance(std::chrono::milliseconds(1));
  s.recv(write_only(1, 8).ack_req().ip_id(0x8000 + 1500));  // 1024, and 500 per millisecond.
  s.expect(ack(1));
  s.advance(std::chrono::seconds(1));
  s.recv(write_only(2, 8).ack_req().ip_id(0x10));
  s.expect(ack(2));
}

// Numbers are learnt only from senders that know the PSN: others could have the peer's packets refused.
TEST(Identification, NumbersAreNotLearntFromStrangers) {
  Script s;
  s.recv(write_only(0, 8).ack_req().ip_id(0x8000));
  s.expect(ack(0));
  for (int i = 0; i < 10; ++i) s.recv(write_only(1000 + i, 8).ip_id(static_cast<std::uint16_t>(0x1000 + i)));
  s.ignore_rest();
  s.recv(write_only(1, 8).ack_req().ip_id(0x8001));
  s.expect(ack(1));
  EXPECT_EQ(s.nic.counters().icrc_errors, 1u);
}

// What was learnt is of one peer: a QP that is given another one in SQD (11.2.5.2) begins anew.
TEST(Identification, IsForgottenWithThePeer) {
  Script s;
  for (int psn = 0; psn < kProof; ++psn) s.recv(write_only(psn, 8));
  const proto::Gid other = proto::Gid::from_v4(10, 0, 0, 77);
  s.move_to(QpState::kSqd);
  s.ignore_rest();
  s.move_to(QpState::kSqd, nic::kAttrAv, [&](nic::QpAttr& a) { a.path.destination = other; });
  proto::Path path = s.path_to_us();
  path.source = other;
  s.recv_on(path, write_only(kProof, 8).ack_req().ip_id(0x1234));
  s.expect(ack(kProof));
}

}  // namespace
}  // namespace uroce::test::rules
