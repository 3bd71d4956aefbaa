// SPDX-License-Identifier: Apache-2.0
// A responder that is not ready to receive (IBTA Vol 1, 9.7.5.2.8).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

/// A message whose packet number `refused` needs a receive.
struct NeedsReceive {
  const char* name;
  std::vector<Pkt> packets;
  std::size_t refused;
};
class NotReady : public testing::TestWithParam<NeedsReceive> {};

// IBTA 9.7.5.2.8, 9.7.4.1: the packet that needs the receive draws an RNR NAK for its PSN and has no effect; what is
// behind it is met with silence; when it comes again and there is a receive, all goes on as if nothing had been.
TEST_P(NotReady, RefusesThePacketThatNeedsTheReceive) {
  const NeedsReceive& p = GetParam();
  const auto psn = static_cast<std::int64_t>(p.refused);
  const auto behind = static_cast<std::int64_t>(p.packets.size());
  Script s({.min_rnr_timer = 5});
  for (std::size_t i = 0; i < p.refused; ++i) s.recv(p.packets[i]);
  s.ignore_rest();
  const auto before = s.memory;
  s.recv(p.packets[p.refused]);
  s.expect(rnr_nak(psn, 5).msn(0));
  for (std::size_t i = p.refused + 1; i < p.packets.size(); ++i) s.recv(p.packets[i]);
  s.recv(write_only(behind, 8).ack_req());
  s.expect_silence();
  s.expect_state(QpState::kRts);
  EXPECT_EQ(s.memory, before);
  s.recv(p.packets[p.refused]);
  s.expect(rnr_nak(psn, 5).msn(0));  // Still not: once for each time it is asked.
  EXPECT_EQ(s.nic.counters().send_rnr_err, 2u);
  s.post_recv(7, 4096);
  for (std::size_t i = p.refused; i < p.packets.size(); ++i) s.recv(p.packets[i]);
  s.ignore_rest();
  s.recv(write_only(behind, 8).ack_req());
  s.expect(ack(behind).msn(2));
}

Pkt send_only_as(Opcode opcode) { return packet(opcode, 0).bytes(8); }

INSTANTIATE_TEST_SUITE_P(
    All, NotReady,
    testing::Values(
        NeedsReceive{"SendOnly", {send_only_as(Opcode::kRcSendOnly)}, 0},
        NeedsReceive{"SendOnlyImm", {send_only_as(Opcode::kRcSendOnlyImm)}, 0},
        NeedsReceive{"SendFirst", {send_first(0).bytes(kMtu), send_middle(1).bytes(kMtu), send_last(2).bytes(8)}, 0},
        NeedsReceive{"WriteOnlyImm", {write_only_imm(0, 8)}, 0},
        NeedsReceive{"EmptyWriteOnlyImm", {write_only_imm(0, 0)}, 0},
        NeedsReceive{"WriteLastImm", {write_first(0, kMtu + 8).bytes(kMtu), write_last_imm(1).bytes(8)}, 1}),
    [](const auto& test) { return std::string(test.param.name); });

// IBTA 9.7.5.2.8: what needs no receive is executed without one.
TEST(NotReadyFor, NothingElse) {
  Script s;
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).msn(1));
  s.recv(write_first(1, kMtu + 8).bytes(kMtu));
  s.recv(write_last(2).bytes(8).ack_req());
  s.expect(ack(2).msn(2));
  s.recv(read_request(3, 8));
  s.expect(read_only(3));
  s.recv(fetch_add(4, 1));
  s.expect(packet(Opcode::kRcAtomicAcknowledge, 4));
}

// IBTA 9.7.5.2.8, table "RNR NAK Timer Field": the NAK carries min_rnr_timer, every code of it.
TEST(RnrTimerCode, IsTheAttribute) {
  for (std::uint8_t code = 0; code < 32; ++code) {
    Script s({.min_rnr_timer = code});
    s.recv(send_only(0).bytes(8));
    s.expect(rnr_nak(0, code));
  }
}

// IBTA 9.7.4.1.2, 9.7.5.1.3?: a duplicate needs no receive: the one it took is gone, and it has no effect.
TEST(NotReadyFor, DuplicatesNeedNone) {
  Script s;
  s.post_recv(7, 8);
  s.recv(send_only(0).bytes(8).ack_req());
  s.expect(ack(0).msn(1));
  s.expect_done(7, WcStatus::kSuccess);
  s.recv(send_only(0).bytes(8).ack_req());
  s.expect(ack(0).msn(1));
}

}  // namespace
}  // namespace uroce::test::rules
