// SPDX-License-Identifier: Apache-2.0
// ATOMIC WRITE and FLUSH at the requester (IBTA Vol 1, Annex A19).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

using nic::WcOpcode;

void post_flush(Script& s, std::uint64_t id, nic::FlushTarget what, std::uint32_t flags = nic::kSignaled) {
  s.post_send(id, SendOp::kFlush, 0, [&](nic::SendWr& wr) {
    wr.sges = {};
    wr.flush = what;
    wr.flags = flags;
  });
}

TEST(PostedAtomicWrite, OnTheWire) {
  Script s;
  std::fill_n(s.memory.begin(), 8, std::uint8_t{0x77});
  s.post_send(1, SendOp::kAtomicWrite, 8, [](nic::SendWr& wr) { wr.remote_addr += 24; });
  s.expect(packet(Opcode::kRcAtomicWrite, 0).at(24).rkey(Script::kPeerKey).length(8).bytes(8).ack_req());
  s.recv(read_only(0).bytes(0));
  const Completion done = s.expect_done(1, WcStatus::kSuccess);
  EXPECT_EQ(done.opcode, WcOpcode::kAtomicWrite);
  EXPECT_EQ(done.byte_len, 8u);
  EXPECT_EQ(s.memory[0], 0x77);  // The answer goes nowhere.
}

TEST(PostedFlush, OnTheWire) {
  for (const std::uint8_t selectivity : {proto::kFlushRange, proto::kFlushRegion}) {
    Script s;
    post_flush(
        s, 1,
        {.length = 5000, .placement = proto::kGlobalVisibility | proto::kPersistence, .selectivity = selectivity});
    s.expect(packet(Opcode::kRcFlush, 0)
                 .at(0)
                 .rkey(Script::kPeerKey)
                 .length(5000)
                 .placement(3)
                 .selectivity(selectivity)
                 .bytes(0)
                 .ack_req());
    s.recv(read_only(0).bytes(0));
    EXPECT_EQ(s.expect_done(1, WcStatus::kSuccess).opcode, WcOpcode::kFlush);
  }
}

// 9.7.5.1: an ACK is not their answer: it tells that the answer was lost.
TEST(PostedPlacement, IsNotCompletedByAnAck) {
  Script s;
  s.post_send(1, SendOp::kAtomicWrite, 8);
  post_flush(s, 2, {.length = 8, .placement = proto::kGlobalVisibility});
  s.ignore_rest();
  s.recv(ack(1));
  s.expect_not_done();
  s.expect(packet(Opcode::kRcAtomicWrite, 0));
  s.expect(packet(Opcode::kRcFlush, 1));
  s.recv(read_only(0).bytes(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.recv(read_only(1).bytes(0));
  s.expect_done(2, WcStatus::kSuccess);
}

// 9.7.5.2: answers that are none of theirs.
TEST(PostedPlacement, BadAnswers) {
  for (const bool of_flush : {false, true}) {
    for (const Pkt& answer :
         {read_only(0).bytes(8), read_first(0).bytes(0), read_first(0).bytes(kMtu), atomic_ack(0, 0)}) {
      Script s;
      if (of_flush) {
        post_flush(s, 1, {.length = 8, .placement = proto::kGlobalVisibility});
      } else {
        s.post_send(1, SendOp::kAtomicWrite, 8);
      }
      s.recv(answer);
      s.expect_done(1, WcStatus::kBadRespErr);
      s.ignore_rest();
    }
  }
}

// A19: they count among the READs and atomics that max_rd_atomic limits.
TEST(PostedPlacement, CountsAsARead) {
  Script s({.max_rd_atomic = 1});
  s.post_send(1, SendOp::kAtomicWrite, 8);
  s.expect(packet(Opcode::kRcAtomicWrite, 0));
  post_flush(s, 2, {.length = 8, .placement = proto::kGlobalVisibility});
  s.post_send(3, SendOp::kRead, 8);
  s.expect_silence();
  s.recv(read_only(0).bytes(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect(packet(Opcode::kRcFlush, 1));
  s.expect_silence();
  s.recv(read_only(1).bytes(0));
  s.expect_done(2, WcStatus::kSuccess);
  s.expect(read_request(2, 8));
  s.ignore_rest();

  Script none({.max_rd_atomic = 0});
  none.post_send(1, SendOp::kAtomicWrite, 8);
  none.expect_done(1, WcStatus::kLocQpOpErr);
}

// 10.8.3.3: a fenced WR waits for their answers.
TEST(PostedPlacement, Fence) {
  Script s;
  post_flush(s, 1, {.length = 8, .placement = proto::kGlobalVisibility});
  s.expect(packet(Opcode::kRcFlush, 0));
  s.post_send(2, SendOp::kWrite, 8, [](nic::SendWr& wr) { wr.flags |= nic::kFence; });
  s.expect_silence();
  s.recv(read_only(0).bytes(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect(write_only(1, 8));
  s.ignore_rest();
}

TEST(PostedPlacement, IsSentAgainAfterATimeout) {
  Script s;
  s.post_send(1, SendOp::kAtomicWrite, 8);
  post_flush(s, 2, {.length = 8, .placement = proto::kGlobalVisibility});
  s.ignore_rest();
  s.advance(proto::local_ack_timeout(s.setup.timeout).value() + 1ms);
  s.expect(packet(Opcode::kRcAtomicWrite, 0).length(8).bytes(8));
  s.expect(packet(Opcode::kRcFlush, 1).length(8));
  s.ignore_rest();
}

// What cannot be posted.
TEST(PostedPlacement, Limits) {
  Script s;
  const auto refused = [&](SendOp op, std::uint32_t length, const std::function<void(nic::SendWr&)>& change) {
    const nic::Sge sges[] = {s.sge(0, length)};
    nic::SendWr wr;
    wr.op = op;
    wr.remote_addr = Script::kPeerVa;
    if (length != 0) wr.sges = sges;
    change(wr);
    return s.nic.post_send(s.qp, wr);
  };
  for (const std::uint32_t length : {0u, 4u, 7u, 9u, 16u}) {
    EXPECT_EQ(refused(SendOp::kAtomicWrite, length, [](nic::SendWr&) {}), EINVAL) << length;
  }
  EXPECT_EQ(refused(SendOp::kAtomicWrite, 8, [](nic::SendWr& wr) { wr.remote_addr += 4; }), EINVAL);
  for (const nic::FlushTarget what : {nic::FlushTarget{8, 0, 0}, {8, 4, 0}, {8, 9, 1}, {8, 1, 2}, {0x80000001, 1, 0}}) {
    EXPECT_EQ(refused(SendOp::kFlush, 0, [&](nic::SendWr& wr) { wr.flush = what; }), EINVAL);
  }
  EXPECT_EQ(refused(SendOp::kFlush, 8, [](nic::SendWr& wr) { wr.flush = {8, 1, 0}; }), EINVAL);
  for (const nic::QpType type : {nic::QpType::kUc, nic::QpType::kUd}) {
    Script other({.type = type});
    nic::SendWr wr;
    wr.op = SendOp::kFlush;
    wr.flush = {8, 1, 0};
    EXPECT_EQ(other.nic.post_send(other.qp, wr), EINVAL);
    const nic::Sge sges[] = {other.sge(0, 8)};
    wr.op = SendOp::kAtomicWrite;
    wr.sges = sges;
    EXPECT_EQ(other.nic.post_send(other.qp, wr), EINVAL);
  }
}

// The value can be inline, whatever the QP was created for.
TEST(PostedAtomicWrite, InlineAlways) {
  Script s;
  std::uint8_t value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const nic::Sge sges[] = {{reinterpret_cast<std::uintptr_t>(value), 8, 0}};
  s.post_send(1, SendOp::kAtomicWrite, 8, [&](nic::SendWr& wr) {
    wr.sges = sges;
    wr.flags |= nic::kInline;
  });
  s.expect(packet(Opcode::kRcAtomicWrite, 0).bytes(8));
  s.recv(read_only(0).bytes(0));
  s.expect_done(1, WcStatus::kSuccess);
}

}  // namespace
}  // namespace uroce::test::rules
