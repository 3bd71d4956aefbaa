// SPDX-License-Identifier: Apache-2.0
// R_Key, bounds, rights and PD of what a peer touches (IBTA Vol 1, 9.7.4.1.5), and the order of all checks (9.7.4.1).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

struct Access {
  const char* name;
  std::uint32_t right;
  std::function<Pkt()> request;
  std::uint32_t length;  ///< The whole message's.
};
std::ostream& operator<<(std::ostream& os, const Access& a) { return os << a.name; }

const Access kAccesses[] = {
    {"WRITE ONLY", nic::kRemoteWrite, [] { return write_only(0, 64); }, 64},
    {"WRITE ONLY IMM", nic::kRemoteWrite, [] { return write_only_imm(0, 64); }, 64},
    {"WRITE FIRST", nic::kRemoteWrite, [] { return write_first(0, 5000).bytes(kMtu); }, 5000},
    {"READ", nic::kRemoteRead, [] { return read_request(0, 64); }, 64},
    {"long READ", nic::kRemoteRead, [] { return read_request(0, 5000); }, 5000},
    {"COMPARE SWAP", nic::kRemoteAtomic, [] { return compare_swap(0, 0, 1); }, 8},
    {"FETCH ADD", nic::kRemoteAtomic, [] { return fetch_add(0, 1); }, 8},
    {"ATOMIC WRITE", nic::kRemoteWrite, [] { return atomic_write(0, 1); }, 8},
    {"FLUSH", nic::kFlushGlobal, [] { return flush(0, 64); }, 64},
};

class RemoteAccess : public testing::TestWithParam<Access> {
 protected:
  const Access& a = GetParam();

  void refused(Script& s, const Pkt& p) {
    const auto before = s.memory;
    s.post_recv(7, 100);
    s.recv(p);
    s.expect(nak(0, NakCode::kRemoteAccessError).msn(0));
    s.expect_event(Event::Kind::kQpAccessErr);
    s.expect_state(QpState::kErr);
    s.expect_done(7, WcStatus::kWrFlushErr);
    EXPECT_EQ(s.memory, before);
  }
  void granted(Script& s, const Pkt& p) {
    s.post_recv(7, 100);
    s.recv(p);
    s.expect_state(QpState::kRts);
    s.ignore_rest();
  }
};
INSTANTIATE_TEST_SUITE_P(All, RemoteAccess, testing::ValuesIn(kAccesses));

// IBTA 9.7.4.1.5 (10.6.?): the R_Key names a region.
TEST_P(RemoteAccess, UnknownKey) {
  for (const std::uint32_t flip : {0x1u, 0x100u, 0x80000000u}) {
    Script s;
    refused(s, a.request().rkey(s.mr->key ^ flip));
  }
  Script zero;
  refused(zero, a.request().rkey(0));
}

// IBTA 9.7.4.1.5: a region that is gone.
TEST_P(RemoteAccess, KeyOfADeregisteredRegion) {
  Script s;
  const std::uint32_t key = s.mr->key;
  s.nic.mrs().remove(s.mr);
  refused(s, a.request().rkey(key));
}

// IBTA 9.7.4.1.5: the region gives the right, and only the right that is needed.
TEST_P(RemoteAccess, RightsOfTheRegion) {
  Script without({.mr_access = kAllAccess & ~a.right});
  refused(without, a.request());
  Script just({.mr_access = nic::kLocalWrite | a.right});
  granted(just, a.request());
}

// IBTA 9.7.4.1.5: bounds, to the byte, for the whole message although only its first packet is there.
TEST_P(RemoteAccess, Bounds) {
  const std::uint32_t step = a.length == 8 ? 8 : 1;  // Misaligned atomics are another error.
  const std::uint64_t size = 1 << 20;
  {
    Script s;
    granted(s, a.request().at(size - a.length));
  }
  for (const std::uint64_t offset :
       {size - a.length + step, size, std::uint64_t{0} - step, std::uint64_t{0} - a.length}) {
    Script s;
    refused(s, a.request().at(offset));
  }
  for (const std::uint64_t va : {std::uint64_t{0}, ~std::uint64_t{0} - step + 1, ~std::uint64_t{0} - a.length + 1}) {
    Script s;
    refused(s, a.request().va(va / 8 * 8));
  }
}

// IBTA 9.7.4.1.5 (10.2.3): the region is of the QP's PD.
TEST_P(RemoteAccess, ProtectionDomain) {
  Script s;
  nic::Pd* const other = s.nic.alloc_pd();
  nic::Mr* const mr = *s.nic.mrs().add(other, s.memory.data(), s.memory.size(), Script::kVa, kAllAccess);
  refused(s, a.request().rkey(mr->key));
  s.nic.mrs().remove(mr);
}

// IBTA 9.7.4.1.5, C9-88: a request of zero bytes does not check the R_Key.
TEST(ZeroLength, NeedsNoKey) {
  Script s;
  s.post_recv(7, 0);
  s.recv(write_only(0, 0).rkey(0xBAD).va(1).ack_req());
  s.expect(ack(0).msn(1));
  s.recv(write_only_imm(1, 0).rkey(0xBAD).va(1).ack_req());
  s.expect(ack(1).msn(2));
  EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).byte_len, 0u);
  s.recv(read_request(2, 0).rkey(0xBAD).va(1));
  s.expect(read_only(2).bytes(0).msn(3));
}

// IBTA 9.7.4.1.5: a region that goes while a message is under way: what came before stays, nothing more is written.
TEST(RegionGoes, InTheMiddleOfAWrite) {
  Script s;
  s.recv(write_first(0, 3 * kMtu).bytes(kMtu, 1));
  s.nic.mrs().remove(s.mr);
  s.recv(write_middle(1).bytes(kMtu, 2));
  s.expect(nak(1, NakCode::kRemoteAccessError).msn(0));
  s.expect_event(Event::Kind::kQpAccessErr);
  EXPECT_EQ(s.memory[0], 1);
  EXPECT_EQ(s.memory[kMtu], 0);
}

// --- 9.7.4.1: the order of the checks -------------------------------------------------------------------------------

/// A request with two flaws: the one whose check comes first decides.
TEST(Order, PsnBeforeOpcodeSequence) {
  Script s;
  s.recv(send_middle(1).bytes(kMtu));
  s.expect(sequence_nak(0));
}
TEST(Order, OpcodeSequenceBeforeOpcodeOffered) {
  // Both are invalid requests on the wire; but a SEND under way reports the one, and the other has none.
  Script s({.qp_access = 0});
  s.post_recv(7, 4096);
  s.recv(send_first(0).bytes(kMtu));
  s.recv(write_only(1, 8));
  s.expect(nak(1, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_done(7, WcStatus::kRemInvReqErr);
}
TEST(Order, OpcodeOfferedBeforeResources) {
  Script s({.qp_access = 0});
  s.recv(write_only_imm(0, 8));
  s.expect(nak(0, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
}
TEST(Order, ResourcesBeforeAccess) {
  Script s;
  s.recv(write_only_imm(0, 8).rkey(0xBAD));
  s.expect(rnr_nak(0, 12));
  s.expect_state(QpState::kRts);
}
TEST(Order, ResourcesBeforeLength) {
  Script s;
  s.recv(send_first(0).bytes(3));
  s.expect(rnr_nak(0, 12));
}
TEST(Order, AccessBeforeLength) {
  Script s;
  s.recv(write_only(0, 8).length(9).rkey(0xBAD));
  s.expect(nak(0, NakCode::kRemoteAccessError));
  s.expect_event(Event::Kind::kQpAccessErr);
  Script atomic;
  atomic.recv(fetch_add(0, 1).at(4).rkey(0xBAD));
  atomic.expect(nak(0, NakCode::kRemoteAccessError));
  atomic.expect_event(Event::Kind::kQpAccessErr);
}
TEST(Order, LengthBeforeLocalErrors) {
  Script s;
  s.post_recv(7, std::vector<nic::Sge>{{Script::kVa, 100, 0xBAD}});
  s.recv(send_only(0).bytes(kMtu + 1));
  s.expect(nak(0, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_done(7, WcStatus::kWrFlushErr);
}

}  // namespace
}  // namespace uroce::test::rules
