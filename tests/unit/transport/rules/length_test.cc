// SPDX-License-Identifier: Apache-2.0
// Lengths: packets against the path MTU, messages against their RETH and against 2^31 (IBTA Vol 1, 9.7.4.1.6).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

void invalid(Script& s, std::int64_t psn) {
  s.expect(nak(psn, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
  s.expect_state(QpState::kErr);
}

class Mtu : public testing::TestWithParam<std::uint8_t> {
 protected:
  std::uint32_t mtu = proto::mtu_bytes(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, Mtu, testing::Values(1, 2, 3, 4, 5));

// IBTA 9.7.4.1.6: FIRST and MIDDLE carry exactly one path MTU.
TEST_P(Mtu, FirstAndMiddleAreFull) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{mtu - 1}, std::size_t{mtu + 1}}) {
    if (size > 4096) continue;
    Script first({.mtu_code = GetParam()});
    first.post_recv(7, 100'000);
    first.recv(send_first(0).bytes(size));
    invalid(first, 0);
    first.expect_done(7, WcStatus::kWrFlushErr);

    Script middle({.mtu_code = GetParam()});
    middle.post_recv(7, 100'000);
    middle.recv(send_first(0).bytes(mtu));
    middle.recv(send_middle(1).bytes(size));
    invalid(middle, 1);
    middle.expect_done(7, WcStatus::kRemInvReqErr);

    Script write({.mtu_code = GetParam()});
    write.recv(write_first(0, 3 * mtu).bytes(size));
    invalid(write, 0);

    Script write_mid({.mtu_code = GetParam()});
    write_mid.recv(write_first(0, 3 * mtu).bytes(mtu));
    write_mid.recv(write_middle(1).bytes(size));
    invalid(write_mid, 1);
  }
}

// IBTA 9.7.4.1.6: LAST carries 1 .. MTU bytes.
TEST_P(Mtu, LastIsNeitherEmptyNorTooLong) {
  for (std::uint32_t size : {0u, 1u, mtu - 1, mtu, mtu + 1}) {
    if (size > 4096) continue;
    Script s({.mtu_code = GetParam()});
    s.post_recv(7, 100'000);
    s.recv(send_first(0).bytes(mtu));
    s.recv(send_last(1).bytes(size).ack_req());
    if (size >= 1 && size <= mtu) {
      s.expect(ack(1));
      EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).byte_len, mtu + size);
    } else {
      invalid(s, 1);
      s.expect_done(7, WcStatus::kRemInvReqErr);
    }
  }
}

// IBTA 9.7.4.1.6: ONLY carries 0 .. MTU bytes.
TEST_P(Mtu, OnlyMayBeEmpty) {
  for (std::uint32_t size : {0u, 1u, mtu - 1, mtu, mtu + 1}) {
    if (size > 4096) continue;
    Script s({.mtu_code = GetParam()});
    s.post_recv(7, 100'000);
    s.recv(send_only(0).bytes(size).ack_req());
    if (size <= mtu) {
      s.expect(ack(0));
      EXPECT_EQ(s.expect_done(7, WcStatus::kSuccess).byte_len, size);
    } else {
      invalid(s, 0);
      s.expect_done(7, WcStatus::kWrFlushErr);
    }
  }
}

// IBTA 9.7.4.1.6: RETH's length is the sum of the payloads: the message ends where it says, not before, not after.
TEST(RethLength, IsTheSumOfThePayloads) {
  for (std::uint32_t announced : {7u, 9u, 0u, kMtu, 0x80000000u}) {
    Script only;
    only.recv(write_only(0, 8).length(announced));
    only.expect(nak(0, announced > 1 << 20 ? NakCode::kRemoteAccessError : NakCode::kInvalidRequest));
    only.ignore_rest();
  }
  for (std::uint32_t announced : {kMtu + 7, kMtu + 9, 3 * kMtu}) {
    Script last;
    last.recv(write_first(0, announced).bytes(kMtu));
    last.recv(write_last(1).bytes(8));
    invalid(last, 1);
  }
  // A FIRST or MIDDLE after which nothing is left.
  for (std::uint32_t announced : {1u, kMtu - 1, kMtu}) {
    Script first;
    first.recv(write_first(0, announced).bytes(kMtu));
    invalid(first, 0);
    Script middle;
    middle.recv(write_first(0, kMtu + announced).bytes(kMtu));
    middle.recv(write_middle(1).bytes(kMtu));
    invalid(middle, 1);
  }
}

// IBTA 9.7.4.1.6: refused before a byte is written.
TEST(RethLength, NothingIsWrittenByThePacketThatIsRefused) {
  Script s;
  const auto before = s.memory;
  s.recv(write_only(0, 8).length(9));
  EXPECT_EQ(s.memory, before);
  s.ignore_rest();
}

/// A region of 4 GiB of which nothing is ever touched.
nic::Mr* huge_region(Script& s) {
  return *s.nic.mrs().add(s.pd, s.memory.data(), std::uint64_t{1} << 32, std::uint64_t{1} << 40, s.setup.mr_access);
}

// IBTA 9.7.1 (C9-8?): no message is longer than 2^31 bytes.
TEST(MaximumMessage, Is2To31) {
  for (const bool read : {false, true}) {
    for (const std::uint32_t length : {0x80000000u, 0x80000001u, 0xFFFFFFFFu}) {
      Script s;
      nic::Mr* const huge = huge_region(s);
      const Pkt p = read ? read_request(0, length).va(huge->iova).rkey(huge->key)
                         : write_first(0, length).va(huge->iova).rkey(huge->key).bytes(kMtu).ack_req();
      if (length > 0x80000000u) {
        s.recv(p);
        invalid(s, 0);
      } else if (!read) {
        s.recv(p);
        s.expect(ack(0));
      }
      s.nic.mrs().remove(huge);
    }
  }
}

// IBTA 9.7.1 (C9-8?): a SEND has no length up front; the packet that exceeds 2^31 bytes is refused, and not before.
TEST(MaximumMessage, OfASendIsFoundOutOnTheWay) {
  Script s({.mtu_code = 5});
  // The receive has room for more: 32 pieces that lie on top of each other.
  std::vector<std::uint8_t> piece((1u << 26) + 4096);
  nic::Mr* const region = *s.nic.mrs().add(s.pd, piece.data(), piece.size(), 0, nic::kLocalWrite);
  s.post_recv(7, std::vector<nic::Sge>(32, nic::Sge{0, static_cast<std::uint32_t>(piece.size()), region->key}));
  constexpr int kPackets = (1u << 31) / 4096;
  s.recv(send_first(0).bytes(4096));
  for (int psn = 1; psn < kPackets; ++psn) s.recv(send_middle(psn).bytes(4096));
  s.expect_silence();
  s.recv(send_last(kPackets).bytes(1));
  invalid(s, kPackets);
  s.expect_done(7, WcStatus::kRemInvReqErr);
}

// IBTA 9.7.4.1.6 and 9.4.5?: an atomic's address is a multiple of 8.
TEST(AtomicAlignment, AnythingButAMultipleOf8IsInvalid) {
  for (std::uint64_t offset = 0; offset < 9; ++offset) {
    for (const bool swap : {false, true}) {
      Script s;
      const auto before = s.memory;
      s.recv((swap ? compare_swap(0, 0, 5) : fetch_add(0, 5)).at(offset));
      if (offset % 8 == 0) {
        s.expect(atomic_ack(0, 0));
      } else {
        invalid(s, 0);
        EXPECT_EQ(s.memory, before);
      }
    }
  }
}

// IBTA 9.7.4.1.6 (packet length against the path MTU): peers that disagree on the MTU. What fits into the smaller one
// works.
TEST(MtuMismatch, APeerWithALargerMtu) {
  Script s({.mtu_code = 1});
  s.post_recv(7, 8192);
  s.recv(send_only(0).bytes(256).ack_req());
  s.expect(ack(0));
  s.expect_done(7, WcStatus::kSuccess);
  s.post_recv(8, 8192);
  s.expect(ack(0).credits(1));
  s.recv(send_first(1).bytes(1024));
  invalid(s, 1);
  s.expect_done(8, WcStatus::kWrFlushErr);
}

TEST(MtuMismatch, APeerWithASmallerMtu) {
  Script s({.mtu_code = 3});
  s.recv(write_only(0, 256).ack_req());
  s.expect(ack(0));
  s.recv(write_first(1, 1024).bytes(256));
  invalid(s, 1);
}

// IBTA 9.7.5.2?: and what the requester makes of READ responses cut to another MTU.
TEST(MtuMismatch, ReadResponsesOfAnotherMtuAreBadResponses) {
  Script s({.mtu_code = 3});
  s.post_send(1, SendOp::kRead, 1024);
  s.expect(read_request(0, 1024));
  s.recv(read_first(0).bytes(256).msn(1));
  s.expect_done(1, WcStatus::kBadRespErr);
  s.expect_state(QpState::kErr);
}

}  // namespace
}  // namespace uroce::test::rules
