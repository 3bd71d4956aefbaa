// SPDX-License-Identifier: Apache-2.0
// The TCP exchange in bytes: golden layouts, round trips, and everything that must be refused.
#include "tools/control/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

using ::testing::ElementsAre;

PeerMetadata two_qps() {
  PeerMetadata m;
  for (std::size_t i = 0; i < 16; ++i) m.gid[i] = static_cast<std::uint8_t>(0xA0 + i);
  m.lid = 0x0102;
  m.qps = {{0x111213, 0x212223, 0x31323334, 0x4142434445464748}, {0x11, 0, 1, 2}};
  return m;
}

Workload unusual_workload() {
  Workload w;
  w.mix = Mix::kMixed;
  w.qps = 256;
  w.size = 64 << 20;
  w.iterations = 7;
  w.mtu = 4096;
  w.depth = 5;
  w.receive_depth = 9;
  w.sges = 3;
  w.bidirectional = w.verify = w.inline_data = w.events = true;
  return w;
}

TEST(Messages, HeaderIsBigEndian) {
  std::array<std::uint8_t, kHeaderBytes> bytes{};
  Header header;
  header.version = 0x0102;
  header.type = 0x0304;
  header.length = 0x05060708;
  encode_header(header, bytes.data());
  EXPECT_THAT(bytes, ElementsAre('U', 'R', 'C', 'E', 1, 2, 3, 4, 5, 6, 7, 8));
  const Header back = decode_header(bytes.data());
  EXPECT_EQ(back.magic, kMagic);
  EXPECT_EQ(back.version, 0x0102);
  EXPECT_EQ(back.type, 0x0304);
  EXPECT_EQ(back.length, 0x05060708u);
}

TEST(Messages, MetadataAreBigEndian) {
  const auto bytes = encode(two_qps());
  ASSERT_EQ(bytes.size(), 16u + 2 + 4 + 2 * 20);
  EXPECT_EQ(bytes[15], 0xAF);
  const std::vector<std::uint8_t> lid_count_first(bytes.begin() + 16, bytes.begin() + 42);
  EXPECT_THAT(lid_count_first, ElementsAre(1, 2, 0, 0, 0, 2,                                  // LID, count
                                           0, 0x11, 0x12, 0x13, 0, 0x21, 0x22, 0x23,          // QPN, PSN
                                           0x31, 0x32, 0x33, 0x34,                            // rkey
                                           0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48));  // address
}

TEST(Messages, MetadataRoundTrip) {
  const PeerMetadata sent = two_qps();
  const auto received = decode_metadata(encode(sent));
  ASSERT_TRUE(received);
  EXPECT_THAT(received->gid, ::testing::ElementsAreArray(sent.gid));
  EXPECT_EQ(received->lid, sent.lid);
  EXPECT_EQ(received->qps, sent.qps);
}

TEST(Messages, MetadataOfEveryOtherLengthAreRefused) {
  auto bytes = encode(two_qps());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_metadata(Bytes(bytes).first(size))) << size;
  bytes.push_back(0);
  EXPECT_FALSE(decode_metadata(bytes));
}

TEST(Messages, MetadataOutOfRangeAreRefused) {
  PeerMetadata m = two_qps();
  m.qps[0].qpn = 0x1000000;
  EXPECT_FALSE(decode_metadata(encode(m)));
  m = two_qps();
  m.qps[1].psn = 0x1000000;
  EXPECT_FALSE(decode_metadata(encode(m)));
  m = two_qps();
  m.qps.resize(kMaxQps);
  EXPECT_TRUE(decode_metadata(encode(m)));
  EXPECT_LE(encode(m).size(), kMaxPayload);
  m.qps.resize(kMaxQps + 1);
  EXPECT_FALSE(decode_metadata(encode(m)));
  // A count that promises more than the bytes hold.
  auto bytes = encode(two_qps());
  bytes[21] = 3;
  EXPECT_FALSE(decode_metadata(bytes));
}

TEST(Messages, HelloRoundTrip) {
  Hello sent{1, 2, 3, 4, 5, 6, 7, 1};
  const auto bytes = encode(sent);
  EXPECT_EQ(decode_hello(bytes), sent);
  EXPECT_FALSE(decode_hello(Bytes(bytes).first(bytes.size() - 1)));
}

TEST(Messages, WorkloadRoundTrip) {
  const Workload sent = unusual_workload();
  EXPECT_EQ(decode_workload(encode(sent)), sent);
  EXPECT_EQ(decode_workload(encode(Workload{})), Workload{});
}

TEST(Messages, HostileWorkloadsAreRefused) {
  const auto with = [](auto change) {
    Workload w = unusual_workload();
    change(w);
    return decode_workload(encode(w)).has_value();
  };
  EXPECT_TRUE(with([](Workload&) {}));
  EXPECT_FALSE(with([](Workload& w) { w.mix = static_cast<Mix>(8); }));
  EXPECT_FALSE(with([](Workload& w) { w.qps = 0; }));
  EXPECT_FALSE(with([](Workload& w) { w.qps = kMaxQps + 1; }));
  EXPECT_FALSE(with([](Workload& w) { w.size = kMaxMessage + 1; }));
  EXPECT_FALSE(with([](Workload& w) { w.iterations = 0; }));
  EXPECT_FALSE(with([](Workload& w) { w.iterations = UINT64_MAX; }));
  EXPECT_FALSE(with([](Workload& w) { w.mtu = 1500; }));
  EXPECT_FALSE(with([](Workload& w) { w.depth = 0; }));
  EXPECT_FALSE(with([](Workload& w) { w.depth = UINT32_MAX; }));
  EXPECT_FALSE(with([](Workload& w) { w.receive_depth = 0; }));
  EXPECT_FALSE(with([](Workload& w) { w.sges = 0; }));
  EXPECT_FALSE(with([](Workload& w) { w.sges = kMaxSges + 1; }));
  auto bytes = encode(unusual_workload());
  bytes.back() = 0x1F;  // a flag that does not exist
  EXPECT_FALSE(decode_workload(bytes));
}

TEST(Messages, ProgressAndVerdictRoundTrip) {
  const auto progress = decode_progress(encode(Progress{7, 1ull << 40}));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->qp, 7u);
  EXPECT_EQ(progress->count, 1ull << 40);
  const auto verdict = decode_verdict(encode(Verdict{1, 2, 3, "QP 4: wrong"}));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->wrong_messages, 3u);
  EXPECT_EQ(verdict->first_error, "QP 4: wrong");
  EXPECT_FALSE(decode_verdict(std::vector<std::uint8_t>(23)));
  EXPECT_FALSE(decode_progress(std::vector<std::uint8_t>(13)));
}

TEST(Messages, TextOfThePeerIsSafeToPrint) {
  EXPECT_EQ(decode_text(encode_text("a\033[31mb\n")), "a?[31mb?");
  EXPECT_EQ(decode_text(encode_text(std::string(5000, 'x'))).size(), 1000u);
}

}  // namespace
}  // namespace uroce::tools
