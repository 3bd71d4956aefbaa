// SPDX-License-Identifier: Apache-2.0
// What is dropped without an answer and without an effect, before the transport looks at it (IBTA Vol 1, 9.6).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

struct Drop {
  const char* name;
  std::uint64_t nic::Counters::*counter;
  std::function<void(Script&, Pkt)> send;
};
std::ostream& operator<<(std::ostream& os, const Drop& d) { return os << d.name; }

template <class Change>
auto with_header(Change change) {
  return [change](Script& s, Pkt p) {
    p.header_ = change;
    s.recv(p);
  };
}

class SilentDrop : public testing::TestWithParam<std::tuple<Drop, bool>> {};

// Longer than any packet, and perhaps cut by the port: its ICRC is nothing to go by.
TEST(SilentDrop, OfAPacketThatIsTooLong) {
  Script s;
  s.post_recv(7, 100);
  s.recv(packet(Opcode::kRcSendOnly, 0).bytes(proto::kMaxPacketSize));
  EXPECT_EQ(s.nic.counters().parse_errors, 1u);
  s.expect_silence();
  s.expect_not_done();
}

// IBTA 9.6.1: C9-xx? for each row; a request and a response alike.
TEST_P(SilentDrop, IsCountedAndNothingElse) {
  const auto& [drop, response] = GetParam();
  Script s;
  s.post_recv(7, 100);
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  const auto before = s.memory;
  drop.send(s, response ? nak(0, NakCode::kRemoteAccessError) : send_only(0).bytes(50).ack_req());
  EXPECT_EQ(s.nic.counters().*drop.counter, 1u);
  s.expect_silence();
  s.expect_not_done();
  s.expect_state(QpState::kRts);
  EXPECT_EQ(s.memory, before);
  // The same without the flaw is taken.
  s.recv(send_only(0).bytes(50).ack_req());
  s.expect(ack(0).msn(1));
  s.expect_done(7, WcStatus::kSuccess);
  s.recv(ack(0).msn(1));
  s.expect_done(1, WcStatus::kSuccess);
}

using C = nic::Counters;
using proto::Bth;
using B = proto::PacketBuilder;

INSTANTIATE_TEST_SUITE_P(
    All, SilentDrop,
    testing::Combine(
        testing::Values(
            // IBTA 9.6.1.1?: transport version.
            Drop{"TVer", &C::parse_errors, with_header([](B& b) { b.bth().set<Bth::TVer>(1); })},
            // IBTA 9.2.1: reserved opcodes.
            Drop{"reserved opcode", &C::parse_errors, with_header([](B& b) { b.bth().set<Bth::Opcode>(0x15); })},
            // IBTA 9.6.1.1.3?: destination QP.
            Drop{"unknown QPN", &C::unknown_qp, with_header([](B& b) { b.bth().set<Bth::DestQp>(0x999); })},
            Drop{"QPN of another slot", &C::unknown_qp, with_header([](B& b) { b.bth().set<Bth::DestQp>(0x10011); })},
            Drop{"multicast QPN", &C::unknown_qp, with_header([](B& b) { b.bth().set<Bth::DestQp>(0xFFFFFF); })},
            // IBTA 9.6.1.4 and 10.9.3: P_Key; the top bit (membership) does not matter to a full member.
            Drop{"P_Key", &C::wrong_pkey, with_header([](B& b) { b.bth().set<Bth::PKey>(0xFFFE); })},
            Drop{"P_Key 0", &C::wrong_pkey, with_header([](B& b) { b.bth().set<Bth::PKey>(0); })},
            // IBTA 7.8.1 and Annex A17: ICRC.
            Drop{"ICRC", &C::icrc_errors,
                 [](Script& s, Pkt p) {
                   p.corrupt_ = [](MutBytes bytes) { bytes.back() ^= 0x80; };
                   s.recv(p);
                 }},
            Drop{"a bit of BTH", &C::icrc_errors,
                 [](Script& s, Pkt p) {
                   p.corrupt_ = [](MutBytes bytes) { bytes[9] ^= 0x01; };
                   s.recv(p);
                 }},
            // IBTA 9.6.1.?: a connected QP hears only the peer of its address vector.
            Drop{"wrong source", &C::wrong_source,
                 [](Script& s, const Pkt& p) {
                   proto::Path path = s.path_to_us();
                   path.source = proto::Gid::from_v4(10, 0, 0, 3);
                   s.recv_on(path, p);
                 }},
            Drop{"wrong destination", &C::wrong_source,
                 [](Script& s, const Pkt& p) {
                   proto::Path path = s.path_to_us();
                   path.destination = proto::Gid::from_v4(10, 0, 0, 9);
                   s.recv_on(path, p);
                 }},
            // IBTA 9.6.1.?: the transport service of the opcode is not the QP's.
            Drop{"UC opcode", &C::wrong_state_or_service,
                 [](Script& s, const Pkt& p) { s.recv(packet(Opcode::kUcSendOnly, p.psn)); }},
            Drop{"UD opcode", &C::wrong_state_or_service,
                 [](Script& s, const Pkt& p) { s.recv(packet(Opcode::kUdSendOnly, p.psn)); }},
            Drop{"CNP", &C::wrong_state_or_service,
                 [](Script& s, const Pkt& p) { s.recv(packet(Opcode::kCnp, p.psn)); }}),
        testing::Bool()));

// Annex A17: the source port is entropy; any is accepted, and it may change. The IP fields outside of the ICRC too.
TEST(Accepted, WhateverTheIcrcDoesNotCover) {
  Script s;
  proto::Path path = s.path_to_us();
  for (int i = 0; i < 4; ++i) {
    path.source_port = static_cast<std::uint16_t>(1 + i * 20000);
    path.tclass = static_cast<std::uint8_t>(i);
    path.hop_limit = static_cast<std::uint8_t>(1 + i);
    s.recv_on(path, write_only(i, 8).ack_req());
    s.expect(ack(i));
  }
}

// IBTA 10.9.3: limited membership in the packet's P_Key is fine for a full member.
TEST(Accepted, PKeyWithoutTheMembershipBit) {
  Script s;
  s.recv(write_only(0, 8).ack_req().header([](B& b) { b.bth().set<Bth::PKey>(0x7FFF); }));
  s.expect(ack(0));
}

// IBTA 9.2 (reserved bits are ignored) and Annex A17 (FECN, BECN).
TEST(Accepted, ReservedAndCongestionBits) {
  Script s;
  s.recv(write_only(0, 8).ack_req().header([](B& b) {
    b.bth().set<Bth::Resv6>(0x3F).set<Bth::Resv7>(0x7F).set<Bth::Fecn>(1).set<Bth::Becn>(1).set<Bth::MigReq>(1);
  }));
  s.expect(ack(0));
}

/// (state, a request is taken, a response is taken).
struct InState {
  QpState state;
  bool requests, responses;
};
class ByState : public testing::TestWithParam<InState> {};

// IBTA 10.3.1: which state processes what; the rest is silence.
TEST_P(ByState, RequestsAndResponses) {
  const InState& p = GetParam();
  Script s({.state = p.state <= QpState::kRts ? p.state : QpState::kRts});
  if (s.qp->state() == QpState::kRts) {
    s.post_send(1, SendOp::kWrite, 8);
    s.expect(write_only(0, 8));
  }
  if (p.state == QpState::kSqd || p.state == QpState::kErr) s.move_to(p.state);
  s.recv(write_only(0, 8).ack_req());
  if (p.requests) s.expect(ack(0));
  s.recv(ack(0));
  if (p.responses) s.expect_done(1, WcStatus::kSuccess);
  if (p.state == QpState::kErr) s.expect_done(1, WcStatus::kWrFlushErr);
  if (p.state == QpState::kRtr) s.expect_event(Event::Kind::kCommEst);
  s.expect_silence();
  EXPECT_EQ(s.nic.counters().wrong_state_or_service, 2u - p.requests - p.responses);
}
INSTANTIATE_TEST_SUITE_P(All, ByState,
                         testing::Values(InState{QpState::kReset, false, false}, InState{QpState::kInit, false, false},
                                         InState{QpState::kRtr, true, false}, InState{QpState::kRts, true, true},
                                         InState{QpState::kSqd, true, true}, InState{QpState::kErr, false, false}));

}  // namespace
}  // namespace uroce::test::rules
