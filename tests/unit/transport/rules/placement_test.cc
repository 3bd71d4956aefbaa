// SPDX-License-Identifier: Apache-2.0
// ATOMIC WRITE and FLUSH, the memory placement extensions, at the responder (IBTA Vol 1, Annex A19).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr std::uint8_t kBoth = proto::kGlobalVisibility | proto::kPersistence;

void invalid_request(Script& s, std::int64_t psn) {
  s.expect(nak(psn, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_state(QpState::kErr);
}
void violation(Script& s, std::int64_t psn) {
  s.expect(nak(psn, NakCode::kRemoteAccessError));
  s.expect_event(Event::Kind::kQpAccessErr);
  s.expect_state(QpState::kErr);
}
std::vector<std::uint8_t> bytes_at(const Script& s, std::size_t offset, std::size_t size) {
  return {s.memory.data() + offset, s.memory.data() + offset + size};
}
std::vector<std::uint8_t> eight(std::uint8_t value) { return std::vector<std::uint8_t>(8, value); }

// --- the responder and ATOMIC WRITE ---------------------------------------------------------------------------------

// A19: it is answered by a READ response without data, asked or not.
TEST(AtomicWrite, IsWrittenAndAnswered) {
  Script s;
  s.recv(atomic_write(0, 0x5A).at(16));
  s.expect(read_only(0).bytes(0).msn(1));
  EXPECT_EQ(bytes_at(s, 16, 8), eight(0x5A));
  EXPECT_EQ(bytes_at(s, 8, 8), eight(0));
  EXPECT_EQ(bytes_at(s, 24, 8), eight(0));
}

// The answer acknowledges what was before.
TEST(AtomicWrite, AnswerCoalesces) {
  Script s;
  s.post_recv(7, 100);
  s.recv_together({send_only(0).bytes(10).ack_req(), write_only(1, 8).ack_req(), atomic_write(2, 1)});
  s.expect(read_only(2).bytes(0).msn(3));
  s.expect_done(7, WcStatus::kSuccess);
}

// A19: eight bytes, by RETH and by payload.
TEST(AtomicWrite, HasEightBytes) {
  struct Size {
    std::uint32_t announced;
    std::size_t bytes;
  };
  for (const Size size : {Size{0, 0}, {4, 4}, {16, 16}, {8, 4}, {8, 16}, {4, 8}, {0, 8}, {8, 0}, {16, 8}, {7, 7}}) {
    Script s;
    const auto before = s.memory;
    s.recv(atomic_write(0, 0x5A).length(size.announced).bytes(size.bytes));
    invalid_request(s, 0);
    EXPECT_EQ(s.memory, before) << size.announced << ", " << size.bytes;
  }
}

// A19: to a multiple of eight.
TEST(AtomicWrite, IsAligned) {
  for (std::uint64_t offset = 1; offset < 8; ++offset) {
    Script s;
    const auto before = s.memory;
    s.recv(atomic_write(0, 0x5A).at(offset));
    invalid_request(s, 0);
    EXPECT_EQ(s.memory, before);
  }
}

// An aligned address of a region whose memory is not: it cannot be written in one step.
TEST(AtomicWrite, MemoryIsAlignedToo) {
  Script s;
  nic::Mr* const odd = *s.nic.mrs().add(s.pd, s.memory.data() + 1, 64, 0x1000, kAllAccess);
  s.recv(atomic_write(0, 0x5A).va(0x1000).rkey(odd->key));
  s.expect(nak(0, NakCode::kRemoteOperationalError));
  s.expect_event(Event::Kind::kQpFatal);
  EXPECT_EQ(bytes_at(s, 0, 16), std::vector<std::uint8_t>(16, 0));
}

// A19: the right is that of WRITEs. Atomic rights are not asked for.
TEST(AtomicWrite, NeedsTheQpsRemoteWrite) {
  Script without({.qp_access = kAllAccess & ~nic::kRemoteWrite});
  without.recv(atomic_write(0, 1));
  invalid_request(without, 0);
  Script just({.qp_access = nic::kRemoteWrite});
  just.recv(atomic_write(0, 1));
  just.expect(read_only(0).bytes(0).msn(1));
}

// A19: a duplicate is answered again and not executed: what was written later stays.
TEST(AtomicWrite, DuplicateIsOnlyAnswered) {
  Script s;
  s.recv(atomic_write(0, 0x5A));
  s.expect(read_only(0).bytes(0).msn(1));
  s.recv(write_only(1, 8).ack_req());
  s.expect(ack(1).msn(2));
  for (int i = 0; i < 3; ++i) {
    s.recv(atomic_write(0, 0x5A));
    s.expect(read_only(0).bytes(0).msn(2));
  }
  EXPECT_EQ(bytes_at(s, 0, 8), eight(0xEE));
  s.recv(atomic_write(1, 0x5A));  // That was a WRITE.
  s.recv(fetch_add(0, 1));        // And that none.
  s.recv(read_request(0, 8));
  s.expect_silence();
}

// 9.7.5.1: a duplicate of what was before it must not acknowledge an ATOMIC WRITE whose answer was lost.
TEST(AtomicWrite, IsNotAcknowledgedByTheAckOfADuplicate) {
  Script s;
  s.recv(write_only(0, 8).ack_req());
  s.recv(atomic_write(1, 1));
  s.recv(flush(2, 8));
  s.ignore_rest();
  s.recv(write_only(0, 8).ack_req());
  s.expect(ack(0).msn(3));
}

// A19: it counts among the READs and atomics that max_dest_rd_atomic limits.
TEST(AtomicWrite, CountsAsARead) {
  Script s({.max_dest_rd_atomic = 2});
  s.recv_together({atomic_write(0, 1), read_request(1, 8), atomic_write(2, 3)});
  s.expect(read_only(0).bytes(0));
  s.expect(read_only(1).bytes(8));
  invalid_request(s, 2);
  Script none({.max_dest_rd_atomic = 0});
  none.recv(atomic_write(0, 1));
  invalid_request(none, 0);
}

// --- the responder and FLUSH ----------------------------------------------------------------------------------------

// A19: it is answered by a READ response without data. Nothing changes in memory.
TEST(Flush, IsAnswered) {
  Script s;
  s.recv(write_only(0, 64));
  const auto before = s.memory;
  s.recv(flush(1, 64));
  s.expect(read_only(1).bytes(0).msn(2));
  EXPECT_EQ(s.memory, before);
}

// A19: of a range, address and length count; of a whole region, only the key.
TEST(Flush, OfAWholeRegionHasNoAddress) {
  Script s;
  s.recv(flush(0, 0xFFFFFFFF).selectivity(proto::kFlushRegion).va(3));
  s.expect(read_only(0).bytes(0).msn(1));
  s.recv(flush(1, 64).selectivity(proto::kFlushRegion).va(0).rkey(s.mr->key ^ 1));
  violation(s, 1);
}

// A19: a range of no bytes is one, and its key counts (unlike that of a WRITE of no bytes).
TEST(Flush, OfNoBytesNeedsAKey) {
  Script s;
  s.recv(flush(0, 0));
  s.expect(read_only(0).bytes(0));
  s.recv(flush(1, 0).rkey(s.mr->key ^ 1));
  violation(s, 1);
}

// A19: the QP offers the placement types that its access flags name.
TEST(Flush, NeedsTheQpsRight) {
  struct Case {
    std::uint32_t qp_access;
    std::uint8_t placement;
    bool offered;
  };
  constexpr std::uint32_t kPersistent = nic::kFlushPersistent, kGlobal = nic::kFlushGlobal;
  for (const Case c : {Case{0, proto::kGlobalVisibility, false},
                       {kPersistent, proto::kGlobalVisibility, false},
                       {kGlobal, proto::kGlobalVisibility, true},
                       {kGlobal, proto::kPersistence, false},
                       {kGlobal, kBoth, false},
                       {kPersistent, kBoth, false},
                       {kGlobal | kPersistent, kBoth, true},
                       {kPersistent, proto::kPersistence, true}}) {
    SCOPED_TRACE(testing::Message() << c.qp_access << ", placement " << int{c.placement});
    Script s({.qp_access = c.qp_access});
    s.recv(flush(0, 64).placement(c.placement));
    if (!c.offered) {
      invalid_request(s, 0);
    } else if (c.placement == proto::kGlobalVisibility) {
      s.expect(read_only(0).bytes(0));
    } else {
      violation(s, 0);  // No region is persistent memory.
    }
  }
}

// A19: placement types and selectivity levels that are reserved, and a FLUSH for nothing.
TEST(Flush, OfReservedKinds) {
  for (std::uint8_t placement = 0; placement < 16; ++placement) {
    for (std::uint8_t selectivity = 0; selectivity < 4; ++selectivity) {
      if (placement >= 1 && placement <= 3 && selectivity <= 1) continue;
      Script s({.qp_access = kAllAccess | nic::kFlushPersistent});
      s.recv(flush(0, 64).placement(placement).selectivity(selectivity));
      invalid_request(s, 0);
    }
  }
}

// A window gives the right when it was bound with it, and its region has it.
TEST(Flush, ThroughAWindow) {
  for (const std::uint32_t access : {std::uint32_t{nic::kFlushGlobal}, std::uint32_t{nic::kRemoteWrite}}) {
    for (const std::uint8_t selectivity : {proto::kFlushRange, proto::kFlushRegion}) {
      Script s({.mr_access = kAllAccess | nic::kMwBind});
      nic::Mw* const mw = *s.nic.mrs().add_window(s.pd, nic::MwType::k2);
      ASSERT_TRUE(s.nic.mrs().bind({mw->key, mw->key, s.mr->key, Script::kVa, 4096, access}, s.pd, s.qp->qpn()));
      s.recv(flush(0, 64).selectivity(selectivity).rkey(mw->key));
      if (access == nic::kFlushGlobal) {
        s.expect(read_only(0).bytes(0));
        s.recv(flush(1, 64).selectivity(selectivity).rkey(mw->key).at(4096));
        if (selectivity == proto::kFlushRange) {
          violation(s, 1);
        } else {
          s.expect(read_only(1).bytes(0));
        }
      } else {
        violation(s, 0);
      }
    }
  }
  Script s({.mr_access = (kAllAccess & ~nic::kFlushGlobal) | nic::kMwBind});
  nic::Mw* const mw = *s.nic.mrs().add_window(s.pd, nic::MwType::k2);
  EXPECT_FALSE(
      s.nic.mrs().bind({mw->key, mw->key, s.mr->key, Script::kVa, 4096, nic::kFlushGlobal}, s.pd, s.qp->qpn()));
}

// A19: a duplicate is answered again.
TEST(Flush, DuplicateIsAnswered) {
  Script s;
  s.recv(flush(0, 64));
  s.expect(read_only(0).bytes(0).msn(1));
  s.recv(fetch_add(1, 1));
  s.expect(atomic_ack(1, 0).msn(2));
  s.nic.mrs().remove(s.mr);
  s.recv(flush(0, 64));
  s.expect(read_only(0).bytes(0).msn(2));
  s.recv(flush(1, 64));  // That was an atomic.
  s.expect_silence();
}

// Nor do they push out what answers the duplicates of others; and the PSN of something else is none of theirs.
TEST(Flush, LeavesOtherDuplicatesTheirAnswers) {
  Script s({.max_dest_rd_atomic = 1});
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  s.recv(write_only(1, 8));
  for (int psn = 2; psn < 6; ++psn) {
    s.recv(flush(psn, 64));
    s.expect(read_only(psn).bytes(0));
  }
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  s.recv(flush(0, 64));
  s.recv(flush(1, 64));
  s.recv(flush(-1, 64));
  s.expect_silence();
}

// Soft-RoCE has more of them outstanding than the peer's max_dest_rd_atomic: they are answered all the same, and leave
// the READs their places.
TEST(Flush, AnyNumberIsAnswered) {
  Script s({.max_dest_rd_atomic = 1});
  std::vector<Pkt> many;
  for (int psn = 0; psn < 20; ++psn) many.push_back(flush(psn, 64));
  many.push_back(read_request(20, 8));
  s.recv_together(many);
  for (int psn = 0; psn < 20; ++psn) s.expect(read_only(psn).bytes(0));
  s.expect(read_only(20).bytes(8).msn(21));
  for (const int psn : {19, 0}) {
    s.recv(flush(psn, 64));
    s.expect(read_only(psn).bytes(0).msn(21));
  }
  s.recv(read_request(20, 8));
  s.expect(read_only(20).bytes(8).msn(21));
  Script none({.max_dest_rd_atomic = 0});
  none.recv(flush(0, 64));
  invalid_request(none, 0);
}

}  // namespace
}  // namespace uroce::test::rules
