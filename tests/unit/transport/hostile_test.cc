// SPDX-License-Identifier: Apache-2.0
// Packets with a right ICRC and anything else in them: a peer can send these at will. The NIC may refuse, answer or
// ignore them; it must not crash, must not come to an unbounded answer, and must not touch memory outside of granted
// rights.
#include "proto/icrc.h"
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using engine::sim::Random;
using nic::QpState;

/// The peer of a QP as an attacker: full control over the bytes, but for the ICRC, which is right.
class Attacker {
 public:
  Attacker(Side& victim, const Side& posed_as, std::uint64_t seed)
      : victim_(victim), random_(seed), path_{.source = posed_as.gid, .destination = victim.gid} {}

  void send_one(Instant now) {
    std::array<std::uint8_t, 5000> frame{};
    const std::size_t size = make(frame);
    victim_.nic.on_datagram({path_, Bytes(frame).first(size)}, now);
    std::array<std::uint8_t, proto::kMaxPacketSize> out;
    // Answers are bounded: a READ of 2^31 bytes at worst, of which this looks at the beginning.
    for (int i = 0; i < 64; ++i) {
      const auto answer = victim_.nic.poll_transmit(now, out);
      if (!answer) return;
      learn(Bytes(out).first(answer->size));
    }
  }
  /// The victim's QP has been connected anew.
  void restart() { expected_ = kFirstPsn; }

  static constexpr std::uint32_t kFirstPsn = 0x100;
  static constexpr std::size_t kGranted = 64 * 1024;

 private:
  std::size_t make(MutBytes frame) {
    const proto::OpcodeInfo& op = proto::kOpcodes[random_.below(proto::kOpcodes.size())];
    proto::PacketBuilder builder(frame, op.code);
    builder.bth()
        .set<proto::Bth::DestQp>(victim_.qp->qpn())
        .set<proto::Bth::PsnField>(psn())
        .set<proto::Bth::AckReq>(random_.below(4) != 0)
        .set<proto::Bth::SolicitedEvent>(random_.below(2) != 0);
    if (op.has(proto::HeaderId::kReth)) {
      builder.header<proto::Reth>()
          .set<proto::Reth::Va>(address())
          .set<proto::Reth::RKey>(key())
          .set<proto::Reth::DmaLength>(static_cast<std::uint32_t>(length()));
    }
    if (op.has(proto::HeaderId::kAtomicEth)) {
      builder.header<proto::AtomicEth>().set<proto::AtomicEth::Va>(address()).set<proto::AtomicEth::RKey>(key());
    }
    if (op.has(proto::HeaderId::kAeth)) {
      builder.header<proto::Aeth>().set<proto::Aeth::SyndromeField>(static_cast<std::uint8_t>(random_.next()));
    }
    if (op.has_payload) {
      constexpr std::size_t kSizes[] = {0, 1, 8, 100, 1023, 1024, 1025, 4096};
      builder.payload(kSizes[random_.below(std::size(kSizes))]);
    }
    std::size_t size = builder.finish(path_);
    if (random_.below(8) == 0) size = scramble(frame, size);
    return size;
  }
  /// Flips header bytes or cuts the packet, and makes the ICRC right again.
  std::size_t scramble(MutBytes frame, std::size_t size) {
    if (random_.below(2) == 0) size = proto::kIcrcSize + random_.below(size - proto::kIcrcSize + 1);
    for (std::uint64_t i = random_.below(4); i > 0; --i) {
      frame[random_.below(std::min<std::size_t>(size, 44))] = static_cast<std::uint8_t>(random_.next());
    }
    if (size < proto::Bth::kSize + proto::kIcrcSize) return size;
    const std::uint32_t crc = proto::icrc(path_, frame.first(size - proto::kIcrcSize));
    std::memcpy(frame.data() + size - proto::kIcrcSize, &crc, sizeof crc);
    return size;
  }
  /// Answers tell which PSN the victim expects.
  void learn(Bytes bytes) {
    const auto answer = proto::parse_packet(bytes);
    if (!answer->has<proto::Aeth>()) return;
    const bool is_nak = (answer->header<proto::Aeth>().get<proto::Aeth::SyndromeField>() & 0x60) != 0;
    expected_ = (answer->psn() + (is_nak ? 0 : 1)).value();
  }
  std::uint32_t psn() {
    const std::uint32_t near = random_.below(8) == 0 ? static_cast<std::uint32_t>(random_.below(40)) : 20;
    return (expected_ + near - 20) & Psn::kMask;
  }
  std::uint64_t address() {
    const std::uint64_t begin = victim_.va() + 4096, end = begin + kGranted;
    switch (random_.below(6)) {
      case 0:
        return begin - random_.below(16);
      case 1:
        return end - random_.below(2048);
      case 2:
        return random_.next();
      default:
        return begin + random_.below(kGranted / 8) * 8;
    }
  }
  std::uint32_t key() { return random_.below(8) == 0 ? static_cast<std::uint32_t>(random_.next()) : victim_.mr->key; }
  std::uint64_t length() {
    constexpr std::uint64_t kLengths[] = {0, 1, 8, 1023, 1024, 1025, 3000, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    return kLengths[random_.below(std::size(kLengths))];
  }

  Side& victim_;
  Random random_;
  proto::Path path_;
  std::uint32_t expected_ = kFirstPsn;
};

class Hostile : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Hostile, OnlyGrantedMemoryChanges) {
  const std::uint64_t seed = GetParam();
  Pair pair({.memory = 256 * 1024});
  Random random(seed * 77);
  // What the peer may touch is the middle of the memory.
  pair.b.nic.mrs().remove(pair.b.mr);
  pair.b.mr = *pair.b.nic.mrs().add(pair.b.pd, pair.b.memory.data() + 4096, Attacker::kGranted, pair.b.va() + 4096,
                                    pair.o.mr_access);
  const auto before = pair.b.memory;
  Attacker attacker(pair.b, pair.a, seed);
  for (int i = 0; i < 400; ++i) {
    if (pair.b.qp->state() == QpState::kErr) {
      nic::QpAttr reset;
      ASSERT_EQ(pair.b.nic.modify_qp(pair.b.qp, reset, nic::kAttrState), 0);
      pair.connect(pair.b, pair.a, Attacker::kFirstPsn, Attacker::kFirstPsn);
      attacker.restart();
    }
    for (int n = 0; n < 2; ++n) {
      const nic::Sge sge{pair.b.va() + 4096 + 1024, 2048, pair.b.mr->key};
      static_cast<void>(pair.b.nic.post_recv(pair.b.qp, {1, {&sge, 1}}));
    }
    nic::SendWr read = wr(2, random.below(2) != 0 ? nic::SendOp::kRead : nic::SendOp::kFetchAdd);
    const nic::Sge into{pair.b.va() + 4096 + 8192, 4096, pair.b.mr->key};
    read.sges = {&into, 1};
    if (random.below(4) == 0) static_cast<void>(pair.b.nic.post_send(pair.b.qp, read));
    attacker.send_one(pair.world.now());
    static_cast<void>(pair.b.poll());
    while (pair.b.nic.poll_event()) {
    }
  }
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 4096, pair.b.memory.begin()));
  const auto after = static_cast<std::ptrdiff_t>(4096 + Attacker::kGranted);
  EXPECT_TRUE(std::equal(before.begin() + after, before.end(), pair.b.memory.begin() + after));
  EXPECT_GT(pair.b.nic.counters().rcvd_payload_bytes, 0u) << "some must get through, or this tests nothing";
  EXPECT_EQ(pair.b.nic.counters().icrc_errors, 0u) << "the packets are meant to get past the ICRC";
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, testing::Range(std::uint64_t{1}, std::uint64_t{201}));

}  // namespace
}  // namespace uroce::test
