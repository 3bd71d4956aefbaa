// SPDX-License-Identifier: Apache-2.0
// Sends that fail, of UC and UD: SQE (IBTA Vol 1, 10.3.1.6), the states around it, and the window.
#include "tests/unit/transport/rules/script.h"
#include "verbs/nic/transport/unreliable/unacked_requester.h"

namespace uroce::test::rules {
namespace {

struct Unacked : testing::TestWithParam<nic::QpType> {
  Script s{{.type = GetParam(), .max_wr = 256}};
  bool ud() const { return GetParam() == nic::QpType::kUd; }
  Pkt sent(std::int64_t psn) const { return packet(ud() ? Opcode::kUdSendOnly : Opcode::kUcSendOnly, psn); }
  static void spoil(nic::SendWr& wr) {
    static const nic::Sge kBad[] = {{Script::kVa, 8, 0x1234}};
    wr.sges = kBad;
  }
};
INSTANTIATE_TEST_SUITE_P(Services, Unacked, testing::Values(nic::QpType::kUc, nic::QpType::kUd),
                         [](const auto& test) { return test.param == nic::QpType::kUc ? "Uc" : "Ud"; });

// 10.3.1.6: a failed send stops the sends, and only those: later ones are flushed, receives go on.
TEST_P(Unacked, AFailedSendStopsTheSends) {
  s.post_recv(9, 200);
  s.post_send(1, SendOp::kSend, 8, spoil);
  s.expect_done(1, WcStatus::kLocProtErr);
  s.expect_state(QpState::kSqe);
  s.post_send(2, SendOp::kSend, 8);
  s.expect_done(2, WcStatus::kWrFlushErr);
  s.recv(sent(0).bytes(8));
  s.expect_done(9, WcStatus::kSuccess);
  s.post_recv(10, 200);
  s.expect_not_done();
}

// 10.3.1.6: from SQE back to RTS, and the packets are numbered on.
TEST_P(Unacked, SqeToRts) {
  s.post_send(1, SendOp::kSend, 8);
  s.expect(sent(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.post_send(2, SendOp::kSend, 8, spoil);
  s.expect_done(2, WcStatus::kLocProtErr);
  s.move_to(QpState::kRts);
  s.post_send(3, SendOp::kSend, 8);
  s.expect(sent(1));
  s.expect_done(3, WcStatus::kSuccess);
  s.expect_state(QpState::kRts);
}

// 10.3.1.5: nothing begins in SQD, and the queue is drained at once.
TEST_P(Unacked, SqdHoldsSendsBack) {
  s.move_to(QpState::kSqd, nic::kAttrEnSqdNotify, [](nic::QpAttr& a) { a.en_sqd_notify = true; });
  s.expect_event(Event::Kind::kSqDrained);
  s.post_send(1, SendOp::kSend, 8);
  s.expect_not_done();
  s.expect_silence();
  s.move_to(QpState::kRts);
  s.expect(sent(0));
  s.expect_done(1, WcStatus::kSuccess);
}

// 10.3.1: RESET forgets, ERR flushes.
TEST_P(Unacked, ResetAndErr) {
  s.move_to(QpState::kSqd);
  s.post_send(1, SendOp::kSend, 8);
  s.post_recv(2, 200);
  s.move_to(QpState::kErr);
  s.expect_done(2, WcStatus::kWrFlushErr);
  s.expect_done(1, WcStatus::kWrFlushErr);
  s.move_to(QpState::kReset);
  s.expect_not_done();
}

// Nobody says when packets have left the peer's buffer: so many at once, and after a while the next ones.
TEST_P(Unacked, TheWindowPacesThem) {
  for (std::uint64_t id = 0; id < 200; ++id) s.post_send(id, SendOp::kSend, 1024);
  const std::size_t burst = s.pending_count();
  EXPECT_GT(burst, 20u);
  EXPECT_LT(burst, 100u);
  s.advance(nic::kUnackedHold);
  EXPECT_EQ(s.pending_count(), 2 * burst);
  s.advance(10 * nic::kUnackedHold);
  EXPECT_EQ(s.pending_count(), 200u);
  s.ignore_rest();
}

// Both ends of a connection that sent all they could would not read in time.
TEST_P(Unacked, WhatHasComeTakesOfTheWindow) {
  const auto burst = [this](std::size_t came) {
    Script of{{.type = GetParam(), .max_wr = 256}};
    for (std::size_t i = 0; i < came; ++i) {
      of.post_recv(i, 2048);
      of.recv(sent(static_cast<std::int64_t>(i)).bytes(1024));
    }
    for (std::uint64_t id = 0; id < 200; ++id) of.post_send(id, SendOp::kSend, 1024);
    const std::size_t count = of.pending_count();
    of.ignore_rest();
    return count;
  };
  const std::size_t alone = burst(0);
  EXPECT_EQ(burst(20), alone - 15);
  EXPECT_EQ(burst(200), (alone + 1) / 2) << "half of it is left, whatever came long ago";
}

// Buffers on this host take more, if ours are as large; of those elsewhere nobody knows.
TEST(UdPace, IsFasterToThisHost) {
  const auto burst = [](bool is_here, Duration then) {
    Script s{{.type = nic::QpType::kUd, .mtu_code = 5, .max_wr = 256, .host_window_bytes = nic::kHostWindowBytes}};
    nic::UdTarget target = s.target();
    if (is_here) target.path.destination = target.path.source;
    for (std::uint64_t id = 0; id < 200; ++id)
      s.post_send(id, SendOp::kSend, 4096, [&](nic::SendWr& wr) { wr.target = &target; });
    s.advance(then);
    const std::size_t count = s.pending_count();
    s.ignore_rest();
    return count;
  };
  const std::size_t here = burst(true, 0us), elsewhere = burst(false, 0us);
  EXPECT_GE(here, nic::kUnackedWindowBytes / nic::PeerWindow::cost(4096));
  EXPECT_LE(here, 1 + nic::kUnackedWindowBytes / nic::PeerWindow::cost(4096)) << "receives must be posted for it";
  EXPECT_LE(elsewhere, nic::kWindowBytes / nic::PeerWindow::cost(4096));
  EXPECT_GE(elsewhere, 10u);
  EXPECT_EQ(burst(true, nic::kUnackedHostHold), 2 * here);
  EXPECT_EQ(burst(false, nic::kUnackedHostHold), 2 * elsewhere);
}

/// What room() below says of packets that do not go elsewhere.
proto::Room room_here;
constexpr std::uint32_t kElsewhere = Script::kPeerQpn + 1;
proto::Room room(const proto::Path&, std::uint32_t qpn) {
  return qpn == kElsewhere ? proto::Room::kUnknown : room_here;
}

// Where the program at the end reads them, large packets need no window. Of small ones more would find room than
// receives are posted. A datagram that goes elsewhere is as before.
TEST(UnackedPace, IsNotNeededWhereTheProgramReads) {
  room_here = proto::Room::kRead;
  for (const nic::QpType type : {nic::QpType::kUc, nic::QpType::kUd}) {
    Script s{{.type = type, .mtu_code = 5, .max_wr = 512, .room = room}};
    for (std::uint64_t id = 0; id < 200; ++id) s.post_send(id, SendOp::kSend, 4096);
    EXPECT_EQ(s.pending_count(), 200u);
    nic::UdTarget elsewhere = s.target();
    elsewhere.qpn = kElsewhere;
    const bool is_ud = type == nic::QpType::kUd;
    for (std::uint64_t id = 0; is_ud && id < 200; ++id)
      s.post_send(id, SendOp::kSend, 4096, [&](nic::SendWr& wr) { wr.target = &elsewhere; });
    EXPECT_GE(s.pending_count(), is_ud ? 210u : 200u) << "those before took nothing of the window";
    EXPECT_LE(s.pending_count(), is_ud ? 230u : 200u);
    s.ignore_rest();

    Script small{{.type = type, .max_wr = 512, .room = room}};
    for (std::uint64_t id = 0; id < 200; ++id) small.post_send(id, SendOp::kSend, 1024);
    EXPECT_LT(small.pending_count(), 100u);
    small.ignore_rest();
  }
}

// A WRITE needs room only, and a SEND a receive as well.
TEST(UnackedPace, OfWritesIsNotNeededWhereThereIsRoom) {
  room_here = proto::Room::kEnough;
  for (const std::uint32_t size : {64u, 1024u}) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kSend}) {
      Script s{{.type = nic::QpType::kUc, .max_wr = 512, .room = room}};
      for (std::uint64_t id = 0; id < 400; ++id) s.post_send(id, op, size);
      EXPECT_EQ(s.pending_count() == 400, op == SendOp::kWrite) << size;
      s.ignore_rest();
    }
  }
}

// Where there is none, a QP waits by itself until there is, whatever the size.
TEST(UnackedPace, WaitsForRoom) {
  for (const nic::QpType type : {nic::QpType::kUc, nic::QpType::kUd}) {
    for (const std::uint32_t size : {64u, 4096u}) {
      room_here = proto::Room::kNone;
      Script s{{.type = type, .mtu_code = 5, .room = room}};
      for (std::uint64_t id = 0; id < 3; ++id) s.post_send(id, SendOp::kSend, size);
      EXPECT_EQ(s.pending_count(), 0u);
      s.advance(10 * nic::kLookForRoom);
      EXPECT_EQ(s.pending_count(), 0u);
      room_here = proto::Room::kEnough;
      s.advance(nic::kLookForRoom);
      EXPECT_EQ(s.pending_count(), 3u);
      s.ignore_rest();
    }
  }
}

// 11.6.2: longer than the port's MTU is an error of the WR, of UD.
TEST(UdLength, NoLongerThanTheMtu) {
  Script s{{.type = nic::QpType::kUd}};
  s.post_send(1, SendOp::kSend, 4097);
  s.expect_done(1, WcStatus::kLocLenErr);
  s.expect_state(QpState::kSqe);
}

}  // namespace
}  // namespace uroce::test::rules
