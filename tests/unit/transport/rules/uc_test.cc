// SPDX-License-Identifier: Apache-2.0
// UC (IBTA Vol 1, 9.8.2): in order and whole, or not at all; and never a word about it.
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

struct Uc : testing::Test {
  Script s{{.type = nic::QpType::kUc}};

  bool holds(std::uint32_t offset, std::size_t n, std::uint8_t value) const {
    const auto from = s.memory.begin() + offset;
    return std::all_of(from, from + static_cast<std::ptrdiff_t>(n), [value](std::uint8_t b) { return b == value; });
  }
};

Pkt first(std::int64_t psn) { return packet(Opcode::kUcSendFirst, psn).bytes(kMtu, 0xF1); }
Pkt middle(std::int64_t psn) { return packet(Opcode::kUcSendMiddle, psn).bytes(kMtu, 0xF2); }
Pkt last(std::int64_t psn, std::size_t n = 10) { return packet(Opcode::kUcSendLast, psn).bytes(n, 0xF3); }
Pkt only(std::int64_t psn, std::size_t n = 10) { return packet(Opcode::kUcSendOnly, psn).bytes(n, 0xF4); }
Pkt write(std::int64_t psn, std::uint32_t n) { return packet(Opcode::kUcWriteOnly, psn).length(n).bytes(n, 0xE1); }

// 9.8.2: a SEND of several packets is received, and nothing is answered, whatever AckReq says.
TEST_F(Uc, ASendOfSeveralPackets) {
  s.post_recv(1, 4 * kMtu);
  s.recv(first(0).ack_req());
  s.recv(middle(1).ack_req());
  s.recv(packet(Opcode::kUcSendLastImm, 2).bytes(10, 0xF3).imm(0x12345678).ack_req().solicited());
  const Completion c = s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(c.byte_len, 2 * kMtu + 10);
  EXPECT_EQ(c.opcode, nic::WcOpcode::kRecv);
  EXPECT_EQ(c.flags, nic::kWcWithImm);
  EXPECT_EQ(c.imm, 0x12345678u);
  EXPECT_TRUE(c.solicited);
  EXPECT_TRUE(holds(0, kMtu, 0xF1) && holds(kMtu, kMtu, 0xF2) && holds(2 * kMtu, 10, 0xF3));
  s.expect_silence();
}

// 9.8.2.2: a message that lacks a packet is dropped; its receive is the next message's.
TEST_F(Uc, AGapLosesTheMessageAndNotTheReceive) {
  s.post_recv(1, 4 * kMtu);
  s.recv(first(0));
  s.recv(last(2));
  s.recv(only(3));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, 10u);
  EXPECT_TRUE(holds(0, 10, 0xF4));
  EXPECT_EQ(s.nic.counters().out_of_seq_request, 1u);
}

// 9.8.2.2: whether FIRST or LAST is lost, only that message is; a gap may end at any FIRST or ONLY.
TEST_F(Uc, TheNextMessageBeginsAnywhere) {
  for (std::uint64_t id = 1; id <= 3; ++id) s.post_recv(id, 4 * kMtu);
  s.recv(middle(1));
  s.recv(last(2));
  s.recv(first(10));
  s.recv(first(20));
  s.recv(last(21));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, kMtu + 10);
  s.recv(first(22));  // Its LAST is lost.
  s.recv(first(24));
  s.recv(middle(25));
  s.recv(last(26));
  EXPECT_EQ(s.expect_done(2, WcStatus::kSuccess).byte_len, 2 * kMtu + 10);
  s.recv(only(27, 0));
  EXPECT_EQ(s.expect_done(3, WcStatus::kSuccess).byte_len, 0u);
}

// 9.8.2.2.?: packets in the wrong order within a message are lost packets.
TEST_F(Uc, OvertakenPackets) {
  s.post_recv(1, 4 * kMtu);
  s.recv(first(0));
  s.recv(last(2));
  s.recv(middle(1));
  s.recv(last(2));
  s.expect_not_done();
}

// 9.7.4.1.3 ?: a FIRST amidst a message begins another one; a MIDDLE of another kind ends this one.
TEST_F(Uc, OpcodesOutOfSequence) {
  s.post_recv(1, 4 * kMtu);
  s.recv(first(0));
  s.recv(only(1, 7));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, 7u);
  s.post_recv(2, 4 * kMtu);
  s.recv(first(2));
  s.recv(packet(Opcode::kUcWriteMiddle, 3).bytes(kMtu));
  s.recv(last(4));
  s.expect_not_done();
  s.expect_state(QpState::kRts);
  EXPECT_EQ(s.nic.counters().dropped_requests, 2u) << "what continues no message";
}

// 9.8.2.?: no receive: the message is lost, and what follows it is not.
TEST_F(Uc, WithoutAReceive) {
  s.recv(first(0));
  s.post_recv(1, 4 * kMtu);
  s.recv(last(1));
  s.expect_not_done();
  s.recv(only(2));
  s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(s.nic.counters().dropped_no_receive, 1u);
}

// 9.9.3 (class D): longer than the receive: lost; the receive takes the next one that fits.
TEST_F(Uc, LongerThanTheReceive) {
  s.post_recv(1, 20);
  s.recv(only(0, 21));
  s.expect_not_done();
  s.recv(only(1, 20));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, 20u);
  s.post_recv(2, kMtu + 9);
  s.recv(first(2));
  s.recv(last(3, 10));
  s.expect_not_done();
  s.expect_state(QpState::kRts);
  EXPECT_EQ(s.nic.counters().dropped_no_receive, 2u);
}

// 9.7.4.1.6: packets of the wrong length are no part of a message.
TEST_F(Uc, WrongLengths) {
  s.post_recv(1, 4 * kMtu);
  s.recv(packet(Opcode::kUcSendFirst, 0).bytes(kMtu - 4));
  s.recv(last(1));
  s.recv(only(2, kMtu + 4));
  s.recv(first(3));
  s.recv(last(4, 0));
  s.recv(packet(Opcode::kUcWriteOnly, 5).length(12).bytes(8));
  s.expect_not_done();
  EXPECT_EQ(s.nic.counters().dropped_requests, 5u) << "and the first LAST, which continues no message";
  EXPECT_TRUE(holds(4 * kMtu, 12, 0));
}

// 9.9.3: a receive that the program may not have is its error, and the QP's.
TEST_F(Uc, AReceiveWithAWrongLkey) {
  s.post_recv(1, {{Script::kVa, 100, 0x1234}});
  s.post_recv(2, 100);
  s.recv(only(0));
  s.expect_done(1, WcStatus::kLocProtErr);
  s.expect_done(2, WcStatus::kWrFlushErr);
  s.expect_event(Event::Kind::kQpFatal);
  s.expect_state(QpState::kErr);
}

// 9.8.2: WRITE, of one packet and of three, the last with immediate data.
TEST_F(Uc, Writes) {
  s.recv(write(0, 100));
  EXPECT_TRUE(holds(0, 100, 0xE1) && holds(100, 10, 0));
  s.post_recv(1, 0);
  s.recv(packet(Opcode::kUcWriteFirst, 1).at(5000).length(2 * kMtu + 8).bytes(kMtu, 1));
  s.recv(packet(Opcode::kUcWriteMiddle, 2).bytes(kMtu, 2));
  s.recv(packet(Opcode::kUcWriteLastImm, 3).bytes(8, 3).imm(9));
  const Completion c = s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(c.opcode, nic::WcOpcode::kRecvWithImm);
  EXPECT_EQ(c.byte_len, 2 * kMtu + 8);
  EXPECT_EQ(c.imm, 9u);
  EXPECT_TRUE(holds(5000, kMtu, 1) && holds(5000 + kMtu, kMtu, 2) && holds(5000 + 2 * kMtu, 8, 3));
  EXPECT_EQ(s.nic.counters().rcvd_writes, 1u) << "a completion tells of the second one";
}

// 9.8.2.?: what a WRITE has no right to, it does not write, and nobody hears of it. Zero bytes need no right (C9-88).
TEST_F(Uc, WritesWithoutTheRight) {
  s.post_recv(1, 100);
  s.recv(write(0, 100).rkey(0x777));
  s.recv(write(1, 100).va(Script::kVa + s.memory.size() - 99));
  s.recv(packet(Opcode::kUcWriteFirst, 2).at(s.memory.size() - kMtu).length(kMtu + 4).bytes(kMtu));
  s.recv(packet(Opcode::kUcWriteLastImm, 3).bytes(4));
  EXPECT_TRUE(holds(0, s.memory.size(), 0));
  EXPECT_EQ(s.nic.counters().dropped_requests, 4u);
  s.expect_not_done();
  s.expect_silence();
  s.expect_state(QpState::kRts);
  s.recv(packet(Opcode::kUcWriteOnlyImm, 4).rkey(0x777).bytes(0).imm(1));
  s.expect_done(1, WcStatus::kSuccess);
}

// 9.8.2.?: a WRITE that the QP does not allow, or whose immediate data finds no receive.
TEST(UcWrite, NeedsTheQpsPermissionAndAReceiveForImmediateData) {
  Script s{{.type = nic::QpType::kUc, .qp_access = nic::kLocalWrite}};
  s.recv(write(0, 100));
  EXPECT_EQ(s.memory[0], 0);
  s.move_to(QpState::kRts, nic::kAttrAccess, [](nic::QpAttr& a) { a.access = nic::kRemoteWrite; });
  s.recv(packet(Opcode::kUcWriteOnlyImm, 1).length(4).bytes(4));
  EXPECT_EQ(s.memory[0], 0);
  EXPECT_EQ(s.nic.counters().dropped_requests, 1u);
  EXPECT_EQ(s.nic.counters().dropped_no_receive, 1u);
  s.recv(write(2, 4));
  EXPECT_EQ(s.memory[0], 0xE1);
}

// A region that goes in the middle of a WRITE.
TEST_F(Uc, ARegionThatGoes) {
  s.recv(packet(Opcode::kUcWriteFirst, 0).length(2 * kMtu).bytes(kMtu, 1));
  s.nic.mrs().remove(s.mr);
  s.recv(packet(Opcode::kUcWriteLast, 1).bytes(kMtu, 2));
  EXPECT_TRUE(holds(kMtu, kMtu, 0));
}

// 9.6.1.?: a connected QP hears only its peer; and only its own service.
TEST_F(Uc, OnlyItsPeerAndItsService) {
  s.post_recv(1, 100);
  proto::Path path = s.path_to_us();
  path.source = proto::Gid::from_v4(10, 0, 0, 3);
  s.recv_on(path, only(0));
  s.recv(send_only(0).bytes(10));
  s.recv(packet(Opcode::kUdSendOnly, 0).bytes(10));
  s.expect_not_done();
  EXPECT_EQ(s.nic.counters().wrong_source, 1u);
  EXPECT_EQ(s.nic.counters().wrong_state_or_service, 2u);
}

// 9.8: each WR completes when its last packet is out, in order; no packet asks for an ACK.
TEST_F(Uc, RequestsCompleteWhenTheyAreSent) {
  s.post_send(1, SendOp::kSend, 2 * kMtu + 1);
  s.expect(packet(Opcode::kUcSendFirst, 0).bytes(kMtu).ack_req(false));
  s.expect(packet(Opcode::kUcSendMiddle, 1).bytes(kMtu).ack_req(false));
  s.expect(packet(Opcode::kUcSendLast, 2).bytes(1).ack_req(false));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, 2 * kMtu + 1);
  s.post_send(2, SendOp::kWriteImm, kMtu + 4, [](nic::SendWr& wr) {
    wr.imm = 7;
    wr.flags |= nic::kSolicited;
  });
  s.expect(packet(Opcode::kUcWriteFirst, 3).at(0).rkey(Script::kPeerKey).length(kMtu + 4).solicited(false));
  s.expect(packet(Opcode::kUcWriteLastImm, 4).bytes(4).imm(7).solicited());
  EXPECT_EQ(s.expect_done(2, WcStatus::kSuccess).opcode, nic::WcOpcode::kWrite);
  s.post_send(3, SendOp::kSend, 0, [](nic::SendWr& wr) { wr.flags = 0; });
  s.expect(packet(Opcode::kUcSendOnly, 5).bytes(0));
  s.expect_not_done();
}

// 11.4.1.1: UC has no READ, atomics or SEND with invalidate.
TEST_F(Uc, OperationsThatItDoesNotHave) {
  for (const SendOp op : {SendOp::kRead, SendOp::kCompareSwap, SendOp::kFetchAdd, SendOp::kSendInv}) {
    nic::SendWr wr;
    wr.op = op;
    EXPECT_EQ(s.nic.post_send(s.qp, wr), EINVAL);
  }
}

}  // namespace
}  // namespace uroce::test::rules
