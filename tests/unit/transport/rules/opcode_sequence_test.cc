// SPDX-License-Identifier: Apache-2.0
// Which opcode may follow which (IBTA Vol 1, 9.7.4.1.3), and which a QP offers (9.7.4.1.4): all pairs.
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

using proto::Kind;
using proto::OpcodeInfo;

bool is_rc_request(const OpcodeInfo& op) {
  return op.service == proto::Service::kRc && !packet(op.code, 0).is_response();
}

std::vector<Opcode> requests() {
  std::vector<Opcode> out;
  for (const OpcodeInfo& op : proto::kOpcodes) {
    if (is_rc_request(op)) out.push_back(op.code);
  }
  return out;
}

/// A request of this opcode that is right in all other respects, inside a message of `total` bytes where it is one.
Pkt right(Opcode code, std::int64_t psn, std::uint32_t total) {
  const OpcodeInfo& op = proto::info(code);
  Pkt p = packet(code, psn);
  p.ack_req_ = true;
  if (op.kind == Kind::kReadRequest) p.length_ = 8;
  if (op.kind == Kind::kSend || op.kind == Kind::kWrite) {
    p.bytes_ = op.ends() ? 8 : kMtu;
    p.length_ = op.position == proto::Position::kOnly ? 8 : total;
  }
  return p;
}

/// What came before: nothing, a complete message, or one that has begun.
enum class Before { kNothing, kSendOnly, kSendLast, kReadRequest, kSendFirst, kSendMiddle, kWriteFirst, kWriteMiddle };

class Sequence : public testing::TestWithParam<std::tuple<Before, Opcode>> {};

// IBTA 9.7.4.1.3, table "Valid Opcode Sequences" and 9.7.4.1.4: written down here once more, by hand.
bool fits(Before before, Opcode next) {
  const auto one_of = [next](std::initializer_list<Opcode> list) {
    return std::find(list.begin(), list.end(), next) != list.end();
  };
  using enum Opcode;
  switch (before) {
    case Before::kSendFirst:
    case Before::kSendMiddle:
      return one_of({kRcSendMiddle, kRcSendLast, kRcSendLastImm, kRcSendLastInvalidate});
    case Before::kWriteFirst:
    case Before::kWriteMiddle:
      return one_of({kRcWriteMiddle, kRcWriteLast, kRcWriteLastImm});
    default:
      return one_of({kRcSendFirst, kRcSendOnly, kRcSendOnlyImm, kRcSendOnlyInvalidate, kRcWriteFirst, kRcWriteOnly,
                     kRcWriteOnlyImm, kRcReadRequest, kRcCompareSwap, kRcFetchAdd});
  }
}

TEST_P(Sequence, InvalidRequestUnlessItFits) {
  const auto [before, code] = GetParam();
  Script s;
  for (std::uint64_t i : {7u, 8u, 9u}) s.post_recv(i, 4096);
  int psn = 0;
  switch (before) {
    case Before::kNothing:
      break;
    case Before::kSendOnly:
      s.recv(send_only(psn++).bytes(8));
      break;
    case Before::kSendLast:
      s.recv(send_first(psn++).bytes(kMtu));
      s.recv(send_last(psn++).bytes(8));
      break;
    case Before::kReadRequest:
      s.recv(read_request(psn++, 8));
      break;
    case Before::kSendFirst:
    case Before::kSendMiddle:
      s.recv(send_first(psn++).bytes(kMtu));
      if (before == Before::kSendMiddle) s.recv(send_middle(psn++).bytes(kMtu));
      break;
    case Before::kWriteFirst:
    case Before::kWriteMiddle: {
      const std::uint32_t middles = before == Before::kWriteMiddle ? 1 : 0;
      const std::uint32_t more = proto::info(code).ends() ? 8 : 2 * kMtu;
      s.recv(write_first(psn++, (1 + middles) * kMtu + more).bytes(kMtu));
      if (middles != 0) s.recv(write_middle(psn++).bytes(kMtu));
      break;
    }
  }
  s.ignore_rest();
  s.recv(right(code, psn, 2 * kMtu));
  const bool invalidates = code == Opcode::kRcSendLastInvalidate || code == Opcode::kRcSendOnlyInvalidate;
  if (!fits(before, code)) {
    s.expect(nak(psn, NakCode::kInvalidRequest));
    s.expect_event(Event::Kind::kQpReqErr);
    s.expect_state(QpState::kErr);
    // IBTA 9.9.3: the receive that a SEND under way has taken says so; the others are flushed.
    const bool send_under_way = before == Before::kSendFirst || before == Before::kSendMiddle;
    std::uint64_t id = before == Before::kSendOnly || before == Before::kSendLast ? 8 : 7;
    if (send_under_way) s.expect_done(id++, WcStatus::kRemInvReqErr);
    while (id <= 9) s.expect_done(id++, WcStatus::kWrFlushErr);
  } else if (invalidates) {
    s.expect(nak(psn, NakCode::kRemoteAccessError));  // No R_Key of ours may be invalidated from remote.
    s.ignore_rest();
  } else {
    switch (proto::info(code).kind) {
      case Kind::kReadRequest:
        s.expect(read_only(psn).bytes(8));
        break;
      case Kind::kCompareSwap:
      case Kind::kFetchAdd:
        s.expect(packet(Opcode::kRcAtomicAcknowledge, psn));
        break;
      default:
        s.expect(ack(psn));
        break;
    }
    s.expect_state(QpState::kRts);
    if (proto::info(code).ends() && (proto::info(code).kind == Kind::kSend || proto::info(code).consumes_receive)) {
      s.expect_done(before == Before::kSendOnly || before == Before::kSendLast ? 8 : 7, WcStatus::kSuccess);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sequence,
                         testing::Combine(testing::Values(Before::kNothing, Before::kSendOnly, Before::kSendLast,
                                                          Before::kReadRequest, Before::kSendFirst, Before::kSendMiddle,
                                                          Before::kWriteFirst, Before::kWriteMiddle),
                                          testing::ValuesIn(requests())),
                         [](const auto& test) {
                           std::string name = "After" + std::to_string(static_cast<int>(std::get<0>(test.param))) + "_";
                           for (char c : proto::info(std::get<1>(test.param)).name) name += c == ' ' ? '_' : c;
                           return name;
                         });

// IBTA 9.7.4.1.4: an operation that the QP does not offer is an invalid request, whatever else is wrong with it.
TEST(OpcodeOffered, QpAccessRights) {
  const auto refused = [](std::uint32_t access, const Pkt& p) {
    Script s({.qp_access = access});
    s.recv(p);
    s.expect(nak(0, NakCode::kInvalidRequest));
    s.expect_event(Event::Kind::kQpReqErr);
    s.expect_state(QpState::kErr);
  };
  for (std::uint32_t rkey : {0u, 0xBADu}) {
    refused(kAllAccess & ~nic::kRemoteWrite, write_only(0, 8).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteWrite, write_only(0, 0).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteWrite, write_only_imm(0, 8).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteWrite, write_first(0, 5000).bytes(kMtu).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteRead, read_request(0, 8).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteRead, read_request(0, 0).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteAtomic, fetch_add(0, 1).rkey(rkey));
    refused(kAllAccess & ~nic::kRemoteAtomic, compare_swap(0, 1, 2).rkey(rkey));
  }
}

// IBTA 9.7.4.1.4: SENDs need no right.
TEST(OpcodeOffered, SendNeedsNoAccessRight) {
  Script s({.qp_access = 0});
  s.post_recv(7, 8);
  s.recv(send_only(0).bytes(8).ack_req());
  s.expect(ack(0));
  s.expect_done(7, WcStatus::kSuccess);
}

}  // namespace
}  // namespace uroce::test::rules
