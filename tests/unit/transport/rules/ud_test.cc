// SPDX-License-Identifier: Apache-2.0
// UD (IBTA Vol 1, 9.8.3): single packets, from and to anybody who knows the Q_Key.
#include "proto/frame.h"
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr std::uint32_t kGrh = 40;

struct Ud : testing::Test {
  Script s{{.type = nic::QpType::kUd, .mtu_code = 5}};
};

Pkt datagram(std::size_t n = 100) { return packet(Opcode::kUdSendOnly, 0).bytes(n, 0xDD); }

// 9.8.3 and 11.4.2.1: 40 bytes for the GRH come first; source QP and flags are told.
TEST_F(Ud, AReceiveBeginsWithTheGrh) {
  s.post_recv(1, 200);
  s.recv(packet(Opcode::kUdSendOnlyImm, 77).bytes(100, 0xDD).imm(5).solicited());
  const Completion c = s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(c.byte_len, kGrh + 100);
  EXPECT_EQ(c.flags, nic::kWcGrh | nic::kWcWithImm);
  EXPECT_EQ(c.imm, 5u);
  EXPECT_EQ(c.src_qp, Script::kPeerQpn);
  EXPECT_EQ(c.sl, 0xA);  // As mlx5: UDP, IPv4.
  EXPECT_TRUE(c.solicited);
  const std::vector<std::uint8_t> unused(20);
  EXPECT_TRUE(std::equal(unused.begin(), unused.end(), s.memory.begin()));
  EXPECT_EQ(s.memory[20], 0x45);
  EXPECT_EQ(s.memory[29], 17);  // UDP.
  EXPECT_TRUE(std::equal(s.memory.begin() + 32, s.memory.begin() + 36, s.path_to_us().source.v4()));
  EXPECT_EQ(s.memory[kGrh], 0xDD);
  EXPECT_EQ(s.memory[kGrh + 99], 0xDD);
  EXPECT_EQ(s.memory[kGrh + 100], 0);
  s.expect_silence();
}

// What nobody shows us, the ICRC has proved: Identification 0 without DF.
TEST_F(Ud, TheGrhHasTheFlagsOfTheHeaderThatCame) {
  for (const std::uint8_t flags : {proto::kDontFragment, std::uint8_t{0}}) {
    s.post_recv(1, 200);
    s.recv(datagram(8).corrupt([&](MutBytes bytes) {
      const Bytes covered = bytes.first(bytes.size() - proto::kIcrcSize);
      proto::store_icrc(bytes.last(proto::kIcrcSize), proto::icrc(s.path_to_us(), covered, 0, flags));
    }));
    s.expect_done(1, WcStatus::kSuccess);
    EXPECT_EQ(s.memory[26], flags << 5);
    const std::uint16_t checksum = proto::ipv4_checksum(s.memory.data() + 20);
    EXPECT_EQ(s.memory[30] << 8 | s.memory[31], checksum);
  }
}

// Annex A17.4.5.2: over IPv6 it is the IP header.
TEST_F(Ud, TheGrhOfIpv6IsItsHeader) {
  s.post_recv(1, 200);
  proto::Path path = s.path_to_us();
  for (std::uint8_t i = 0; i < 16; ++i) path.source.raw[i] = static_cast<std::uint8_t>(0x20 + i);
  path.destination = path.source;
  path.destination.raw[15] = 1;
  path.tclass = 0x2A;
  path.flow_label = 0x12345;
  path.hop_limit = 3;
  s.recv_on(path, datagram(8));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).sl, 0x9);  // As mlx5: UDP, IPv6.
  const std::uint8_t head[] = {0x62, 0xA1, 0x23, 0x45, 0, 8 + 12 + 8 + 8 + 4, 17, 3};
  EXPECT_TRUE(std::equal(std::begin(head), std::end(head), s.memory.begin()));
  EXPECT_TRUE(std::equal(path.source.raw.begin(), path.source.raw.end(), s.memory.begin() + 8));
  EXPECT_TRUE(std::equal(path.destination.raw.begin(), path.destination.raw.end(), s.memory.begin() + 24));
}

// 10.2.5: a message with the wrong Q_Key reaches nobody.
TEST_F(Ud, TheQkeyMustBeRight) {
  s.post_recv(1, 200);
  s.recv(datagram().qkey(Script::kQkey + 1));
  s.expect_not_done();
  EXPECT_EQ(s.nic.counters().qkey_violations, 1u);
  s.move_to(QpState::kRts, nic::kAttrQkey, [](nic::QpAttr& a) { a.qkey = 5; });
  s.recv(datagram());
  s.expect_not_done();
  s.recv(datagram().qkey(5));
  s.expect_done(1, WcStatus::kSuccess);
}

// 9.8.3.?: PSNs mean nothing, nor does the address that a packet comes from.
TEST_F(Ud, AnyPsnFromAnywhere) {
  s.post_recv(1, 200);
  s.post_recv(2, 200);
  s.recv(packet(Opcode::kUdSendOnly, 1000).bytes(1));
  proto::Path path = s.path_to_us();
  path.source = proto::Gid::from_v4(192, 0, 2, 1);
  s.recv_on(path, packet(Opcode::kUdSendOnly, 1000).bytes(2));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, kGrh + 1);
  EXPECT_EQ(s.expect_done(2, WcStatus::kSuccess).byte_len, kGrh + 2);
}

// 9.9.3 (class D): no receive, or one that is too short, even datagram for the GRH: lost. The receive stays.
TEST_F(Ud, NoReceiveOrAShortOne) {
  s.recv(datagram());
  s.post_recv(1, kGrh + 60);
  s.recv(datagram(61));
  s.expect_not_done();
  EXPECT_EQ(s.memory, Memory(s.memory.size()));
  s.recv(datagram(60));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).byte_len, kGrh + 60);
  s.post_recv(2, kGrh - 1);
  s.recv(datagram(0));
  s.expect_not_done();
  s.expect_state(QpState::kRts);
  EXPECT_EQ(s.nic.counters().dropped_no_receive, 3u);
}

// 9.9.3: a receive that the program may not have is its error, and the QP's.
TEST_F(Ud, AReceiveWithAWrongLkey) {
  s.post_recv(1, {{Script::kVa, 200, 0x1234}});
  s.recv(datagram());
  s.expect_done(1, WcStatus::kLocProtErr);
  s.expect_event(Event::Kind::kQpFatal);
  s.expect_state(QpState::kErr);
}

// 10.3.1: a UD QP receives from RTR on, without a word about it.
TEST(UdStates, ReceivesFromRtrOn) {
  Script s{{.type = nic::QpType::kUd, .state = QpState::kInit}};
  s.post_recv(1, 200);
  s.recv(datagram());
  s.expect_not_done();
  s.move_to(QpState::kRtr);
  s.recv(datagram());
  s.expect_done(1, WcStatus::kSuccess);
}

// 9.8.3: every WR is one packet to where its WR says, with its Q_Key; they are numbered.
TEST_F(Ud, SendsWhereTheWrSays) {
  s.post_send(1, SendOp::kSend, 4096);
  s.expect(packet(Opcode::kUdSendOnly, 0).bytes(4096).qkey(Script::kQkey).ack_req(false));
  EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).opcode, nic::WcOpcode::kSend);
  nic::UdTarget target = s.target();
  target.qkey = 7;
  s.post_send(2, SendOp::kSendImm, 3, [&](nic::SendWr& wr) {
    wr.target = &target;
    wr.imm = 9;
    wr.flags |= nic::kSolicited;
  });
  s.expect(packet(Opcode::kUdSendOnlyImm, 1).bytes(3).qkey(7).imm(9).solicited());
  s.expect_done(2, WcStatus::kSuccess);
}

// 10.2.5: a Q_Key with the top bit set in a WR stands for the QP's own.
TEST_F(Ud, AControlledQkeyIsTheQps) {
  nic::UdTarget target = s.target();
  target.qkey = 0x80000001;
  s.post_send(1, SendOp::kSend, 1, [&](nic::SendWr& wr) { wr.target = &target; });
  s.expect(packet(Opcode::kUdSendOnly, 0).qkey(Script::kQkey));
  s.expect_done(1, WcStatus::kSuccess);
}

// 10.2.3: an address handle belongs to a protection domain, which has to be that of the QP.
TEST_F(Ud, AnAddressHandleOfAnotherProtectionDomain) {
  nic::UdTarget target = s.target();
  target.pd = s.pd;
  s.post_send(1, SendOp::kSend, 1, [&](nic::SendWr& wr) { wr.target = &target; });
  s.expect(packet(Opcode::kUdSendOnly, 0));
  s.expect_done(1, WcStatus::kSuccess);
  target.pd = s.nic.alloc_pd();
  s.post_send(2, SendOp::kSend, 1, [&](nic::SendWr& wr) { wr.target = &target; });
  s.expect_silence();
  s.expect_done(2, WcStatus::kLocQpOpErr);
  s.expect_state(QpState::kSqe);
}

// 11.4.1.1: UD has SEND, and needs to know where to.
TEST_F(Ud, OperationsThatItDoesNotHave) {
  const nic::UdTarget target = s.target();
  nic::SendWr wr;
  wr.target = &target;
  for (const SendOp op : {SendOp::kWrite, SendOp::kWriteImm, SendOp::kRead, SendOp::kFetchAdd, SendOp::kSendInv}) {
    wr.op = op;
    EXPECT_EQ(s.nic.post_send(s.qp, wr), EINVAL);
  }
  wr = {};
  EXPECT_EQ(s.nic.post_send(s.qp, wr), EINVAL);
}

}  // namespace
}  // namespace uroce::test::rules
