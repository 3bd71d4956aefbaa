// SPDX-License-Identifier: Apache-2.0
// What comes 2^24 packets later under the same PSNs, and how many PSNs may be under way (IBTA Vol 1, 9.7.1 and 9.7.2).
#include <sys/mman.h>

#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr std::uint32_t kLongest = nic::kMaxMessageBytes;  ///< 2^23 packets of 256 bytes.
constexpr std::int64_t kHalf = 1 << 23;

/// A responder through which nearly 2^24 PSNs can be passed quickly: by READs of which only the last packet is sent, as
/// a duplicate asked for no more before the answer began.
class PsnWrap : public testing::Test {
 protected:
  PsnWrap()
      : memory_(mmap(nullptr, kLongest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        mr_(*s.nic.mrs().add(s.pd, static_cast<std::uint8_t*>(memory_), kLongest, kVa, nic::kRemoteRead)) {}
  ~PsnWrap() override {
    s.nic.mrs().remove(mr_);
    munmap(memory_, kLongest);
  }
  void pass(std::int64_t first, std::uint32_t packets) {
    const std::uint32_t bytes = packets * 256, last = packets - 1;
    s.recv_together({read_request(first, bytes).va(kVa).rkey(mr_->key),
                     read_request(first + last, 256).va(kVa + last * std::uint64_t{256}).rkey(mr_->key)});
    s.expect(read_only(first + last));
  }
  /// Passes [1, 2^24).
  void pass_the_rest() {
    pass(1, kHalf);
    pass(1 + kHalf, kHalf - 1);
  }

  static constexpr std::uint64_t kVa = 0x100000000;
  static constexpr std::int64_t kAgain = 2 * kHalf;  ///< PSN 0 once more.
  Script s{{.mtu_code = 1, .max_dest_rd_atomic = 8}};

 private:
  void* memory_;
  nic::Mr* mr_;
};

TEST_F(PsnWrap, ADuplicateAtomicHasItsOwnResult) {
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  pass_the_rest();
  for (int i = 0; i < 2; ++i) {
    s.recv(fetch_add(kAgain, 5));
    s.expect(atomic_ack(kAgain, 5));
  }
}

TEST_F(PsnWrap, ADuplicateReadIsAnswered) {
  s.recv(fetch_add(0, 5));
  s.expect(atomic_ack(0, 0));
  pass_the_rest();
  for (int i = 0; i < 2; ++i) {
    s.recv(read_request(kAgain, 8));
    s.expect(read_only(kAgain));
  }
}

TEST_F(PsnWrap, TheAckOfADuplicateStopsBeforeNoReadOfOld) {
  s.recv(write_only(0, 8));
  s.recv(read_request(1, 8));
  s.expect(read_only(1));
  pass(2, kHalf);
  pass(2 + kHalf, kHalf - 2);
  s.recv(write_only(kAgain, 8));
  s.recv(write_only(kAgain + 1, 8));
  s.recv(write_only(kAgain + 2, 8));
  s.recv(write_only(kAgain, 8));
  s.expect(ack(kAgain + 2));
}

// 9.7.2: no more PSNs outstanding than half of the number space less one, however long nobody answers.
TEST(PsnsOutstanding, AreLessThanHalfOfTheNumberSpace) {
  constexpr std::uint32_t kPiece = kLongest / 32;
  std::vector<std::uint8_t> memory(kPiece);
  Script s({.mtu_code = 1, .timeout = 0, .window_bytes = std::uint64_t{1} << 40});
  const nic::Mr* const mr = *s.nic.mrs().add(s.pd, memory.data(), kPiece, 0, 0);
  const std::vector<nic::Sge> sges(32, {0, kPiece, mr->key});
  nic::SendWr wr;
  wr.op = SendOp::kWrite;
  wr.sges = sges;
  ASSERT_EQ(s.nic.post_send(s.qp, wr), 0);
  wr.sges = {sges.data(), 0};
  ASSERT_EQ(s.nic.post_send(s.qp, wr), 0);
  std::array<std::uint8_t, proto::kMaxPacketSize> frame;
  const Instant now{std::chrono::seconds(1000)};
  std::int64_t sent = 0;
  while (sent <= kHalf && s.nic.poll_transmit(now, frame)) ++sent;
  ASSERT_EQ(sent, kHalf - 1);
  s.recv(ack(0));  // One less is one more.
  s.expect(packet(Opcode::kRcWriteLast, kHalf - 1).ack_req());
  s.expect_silence();
  s.advance(1s);  // Nobody answers; the window forgets the packets.
  s.expect_silence();
  s.recv(ack(1));
  s.expect(write_only(kHalf, 0));
  s.recv(ack(kHalf));
  s.expect_silence();
}

}  // namespace
}  // namespace uroce::test::rules
