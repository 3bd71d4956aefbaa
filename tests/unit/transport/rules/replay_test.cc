// SPDX-License-Identifier: Apache-2.0
// READs and atomics at the responder: depth, order, duplicates (IBTA Vol 1, 9.7.5.1 and 9.7.4.1).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

/// The 64-bit word at `offset` of the script's memory.
std::uint64_t word(const Script& s, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, s.memory.data() + offset, sizeof value);
  return value;
}

// IBTA 9.7.5.1.4?: a duplicate atomic is answered from the saved result and never executed again.
TEST(DuplicateAtomic, IsAnsweredFromTheSavedResult) {
  Script s;
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0).msn(1));
  s.recv(compare_swap(1, 5, 70));
  s.expect(atomic_ack(1, 5).msn(2));
  for (int i = 0; i < 3; ++i) {
    s.recv(fetch_add(0, 5));
    s.expect(atomic_ack(0, 0).msn(2));
    s.recv(compare_swap(1, 5, 70));
    s.expect(atomic_ack(1, 5).msn(2));
  }
  EXPECT_EQ(word(s, 0), 70u);
}

// IBTA 9.7.5.1.4?: the saved result is the answer whatever the duplicate's operands and key are by now.
TEST(DuplicateAtomic, IsNotCheckedAgain) {
  Script s;
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  s.nic.mrs().remove(s.mr);
  s.recv(fetch_add(0, 5).rkey(0xBAD).at(3));
  s.expect(atomic_ack(0, 0));
}

// IBTA 9.7.5.1.4?: max_dest_rd_atomic results are kept; what has been evicted is met with silence.
TEST(DuplicateAtomic, EvictedIsSilence) {
  for (const std::uint8_t depth : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{16}, std::uint8_t{128}}) {
    Script s({.max_dest_rd_atomic = depth});
    for (int psn = 0; psn <= depth; ++psn) {
      s.recv(fetch_add(psn, 1));
      s.expect(atomic_ack(psn, static_cast<std::uint64_t>(psn)));
    }
    s.recv(fetch_add(0, 1));
    s.expect_silence();
    for (int psn = 1; psn <= depth; ++psn) {
      s.recv(fetch_add(psn, 1));
      s.expect(atomic_ack(psn, static_cast<std::uint64_t>(psn)));
    }
    EXPECT_EQ(word(s, 0), depth + 1u);
  }
}

// IBTA 9.7.5.1.4?: a "duplicate" that is another kind of request than the original is no duplicate: silence.
TEST(DuplicateAtomic, OfAnotherKindIsSilence) {
  Script s;
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  s.recv(read_request(1, 8));
  s.expect(read_only(1));
  s.recv(read_request(0, 8));
  s.recv(fetch_add(1, 5));
  s.expect_silence();
  EXPECT_EQ(word(s, 0), 5u);
}

// IBTA 9.7.5.1.2?: a duplicate READ is executed again: with what the memory holds now.
TEST(DuplicateRead, IsExecutedAgain) {
  Script s;
  s.recv(read_request(0, 2 * kMtu + 1));
  for (int i = 0; i < 2; ++i) {
    s.expect(read_first(0).bytes(kMtu).msn(1));
    s.expect(read_middle(1).bytes(kMtu));
    s.expect(read_last(2).bytes(1).msn(1));
    if (i == 0) s.recv(read_request(0, 2 * kMtu + 1));
  }
}

// IBTA 9.7.5.1.2?: a duplicate may ask for the rest only, from any packet on, with address and length adjusted. It is a
// READ as any other: its answer begins with a FIRST or is an ONLY. (rxe begins with a MIDDLE or a LAST; requesters take
// either.)
TEST(DuplicateRead, OfTheRest) {
  Script s;
  for (std::size_t i = 0; i < 4; ++i) s.memory[i * kMtu] = static_cast<std::uint8_t>(i + 1);
  s.recv(read_request(0, 3 * kMtu + 1));
  s.ignore_rest();
  for (int from = 1; from <= 3; ++from) {
    s.recv(read_request(from, 3 * kMtu + 1 - static_cast<std::uint32_t>(from) * kMtu)
               .at(static_cast<std::uint64_t>(from) * kMtu));
    if (from == 3) {
      s.expect(read_only(3).bytes(1).msn(1));
      continue;
    }
    s.expect(read_first(from).bytes(kMtu).msn(1));
    for (int psn = from + 1; psn < 3; ++psn) s.expect(read_middle(psn).bytes(kMtu));
    s.expect(read_last(3).bytes(1).msn(1));
  }
}

// IBTA 9.7.5.1.2?: or for less than the rest.
TEST(DuplicateRead, OfAPart) {
  Script s;
  s.recv(read_request(0, 4 * kMtu));
  s.ignore_rest();
  s.recv(read_request(1, 2 * kMtu).at(kMtu));
  s.expect(read_first(1).bytes(kMtu));
  s.expect(read_last(2).bytes(kMtu));
}

// IBTA 9.7.5.1.2?: but not for anything else: no memory is read that the original did not name.
TEST(DuplicateRead, BeyondTheOriginalIsSilence) {
  Script s;
  s.recv(read_request(0, 2 * kMtu).at(4096));
  s.ignore_rest();
  s.recv(read_request(0, 2 * kMtu + 1).at(4096));      // Longer.
  s.recv(read_request(0, 2 * kMtu).at(4097));          // Elsewhere.
  s.recv(read_request(1, 2 * kMtu).at(4096));          // Address not adjusted.
  s.recv(read_request(1, 2 * kMtu).at(4096 + kMtu));   // Length not adjusted.
  s.recv(read_request(0, 2 * kMtu).at(4096).rkey(5));  // With another key.
  s.recv(read_request(0, 0xFFFFFFFF).at(4096));
  s.expect_silence();
}

// IBTA 9.7.5.1.2?: the region is gone since, as the requester has had its answer: no old data, and no error. What comes
// behind is taken.
TEST(DuplicateRead, OfARegionThatIsGone) {
  Script s;
  s.recv(read_request(0, 2 * kMtu));
  s.expect(read_first(0));
  s.expect(read_last(1));
  s.nic.mrs().remove(s.mr);
  s.recv(read_request(0, 2 * kMtu));
  s.expect_silence();
  s.recv(write_only(2, 0).ack_req());
  s.expect(ack(2).msn(2));
}

// IBTA 9.7.5.1?: a READ of zero bytes has one response, and so has its duplicate.
TEST(DuplicateRead, OfZeroBytes) {
  Script s;
  for (int i = 0; i < 2; ++i) {
    s.recv(read_request(0, 0));
    s.expect(read_only(0).bytes(0).msn(1));
  }
}

// IBTA 9.7.3.? (transaction ordering): answers go out in the order of the requests, the ACK of what follows behind
// them.
TEST(Answers, AreInTheOrderOfTheRequests) {
  Script s;
  s.recv_together({read_request(0, 2 * kMtu), fetch_add(2, 1).at(8192), write_only(3, 8).ack_req(), read_request(4, 8),
                   write_only(5, 8).ack_req(), write_only(6, 8).ack_req()});
  s.expect(read_first(0));
  s.expect(read_last(1));
  s.expect(atomic_ack(2, 0));
  s.expect(read_only(4));  // Acknowledges the WRITE before it.
  s.expect(ack(6).msn(6));
}

// IBTA 9.7.5.1.?: an error behind READs waits for their answers.
TEST(Answers, ANakWaitsForTheAnswersBeforeIt) {
  Script s;
  s.recv_together({read_request(0, 2 * kMtu), write_only(2, 8).rkey(0xBAD)});
  s.expect(read_first(0));
  s.expect(read_last(1));
  s.expect(nak(2, NakCode::kRemoteAccessError).msn(1));
  s.expect_event(Event::Kind::kQpAccessErr);
}

// IBTA 9.7.4.1.? (resources): more READs and atomics outstanding than max_dest_rd_atomic are an invalid request.
/// (max_dest_rd_atomic, NicConfig::strict, taken).
struct Agreed {
  std::uint8_t attribute;
  bool strict;
  int depth;
};

// Unless strictness is asked for, as many as the next power of two are taken: peers (rxe) round up.
TEST(Depth, OneMoreThanAgreedIsInvalid) {
  for (const auto& [attribute, strict, depth] :
       {Agreed{1, true, 1}, Agreed{2, true, 2}, Agreed{5, true, 5}, Agreed{1, false, 1}, Agreed{2, false, 2},
        Agreed{3, false, 4}, Agreed{5, false, 8}, Agreed{128, false, 128}}) {
    Script s({.max_dest_rd_atomic = attribute, .strict = strict});
    std::vector<Pkt> requests;
    for (int psn = 0; psn <= depth; ++psn) requests.push_back(psn % 2 ? fetch_add(psn, 1) : read_request(psn, 8));
    s.recv_together(requests);
    for (int psn = 0; psn < depth; ++psn) {
      s.expect(packet(psn % 2 ? Opcode::kRcAtomicAcknowledge : Opcode::kRcReadResponseOnly, psn));
    }
    s.expect(nak(depth, NakCode::kInvalidRequest));
    s.expect_event(Event::Kind::kQpReqErr);
    s.expect_state(QpState::kErr);
  }
}

// IBTA 9.7.4.1.? (resources): duplicates do not count; nor does what has been answered.
TEST(Depth, DuplicatesDoNotCount) {
  Script s({.max_dest_rd_atomic = 1});
  s.recv(read_request(0, 8));
  s.expect(read_only(0));
  s.recv_together({read_request(0, 8), fetch_add(1, 1)});
  s.expect(read_only(0));
  s.expect(atomic_ack(1, 0));
}

// A duplicate of each of them is answered, too.
TEST(Depth, DuplicatesOfAllThatAreTaken) {
  Script s({.max_dest_rd_atomic = 3});
  for (int again = 0; again < 2; ++again) {
    s.recv_together({fetch_add(0, 1), fetch_add(1, 1), fetch_add(2, 1), fetch_add(3, 1)});
    for (int psn = 0; psn < 4; ++psn) s.expect(atomic_ack(psn, static_cast<std::uint64_t>(psn)));
  }
}

// IBTA 9.7.4.1.? (resources): a QP that takes none at all.
TEST(Depth, Zero) {
  for (const Pkt& p : {read_request(0, 8), read_request(0, 0), fetch_add(0, 1)}) {
    Script s({.max_dest_rd_atomic = 0});
    s.recv(p);
    s.expect(nak(0, NakCode::kInvalidRequest));
    s.expect_event(Event::Kind::kQpReqErr);
    EXPECT_EQ(word(s, 0), 0u);
  }
}

// IBTA 9.4.5?: operands and result are unsigned 64-bit numbers, in the byte order of the responder's host.
TEST(Atomic, Operands) {
  Script s;
  const std::uint64_t big = 0xFFFF'FFFF'FFFF'FFF0;
  s.recv(fetch_add(0, big).at(8));
  s.expect(atomic_ack(0, 0));
  s.recv(fetch_add(1, 0x20).at(8));
  s.expect(atomic_ack(1, big));
  EXPECT_EQ(word(s, 8), 0x10u) << "wraps";
  s.recv(compare_swap(2, 0x11, 99).at(8));
  s.expect(atomic_ack(2, 0x10));
  EXPECT_EQ(word(s, 8), 0x10u) << "not equal: nothing is stored";
  s.recv(compare_swap(3, 0x10, 99).at(8));
  s.expect(atomic_ack(3, 0x10));
  EXPECT_EQ(word(s, 8), 99u);
}

}  // namespace
}  // namespace uroce::test::rules
