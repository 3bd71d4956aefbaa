// SPDX-License-Identifier: Apache-2.0
// Patterns, schedules, memory layouts and latencies: everything of the tools that is arithmetic.
#include "tools/workload/workload.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tools/rdma/rdma.h"
#include "tools/workload/histogram.h"
#include "tools/workload/layout.h"
#include "tools/workload/pattern.h"

namespace uroce::tools {
namespace {

constexpr Direction kToServer = Direction::kClientToServer;

std::vector<std::uint8_t> stream(PatternSeed seed, std::uint64_t offset, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  fill_pattern(seed, offset, bytes);
  return bytes;
}

TEST(Pattern, AnyPieceIsAWindowIntoTheStream) {
  const PatternSeed seed = message_seed(kToServer, 3, 4);
  const auto whole = stream(seed, 0, 100);
  for (std::size_t offset = 0; offset < 40; ++offset) {
    for (std::size_t size = 0; size < 40; ++size) {
      const auto piece = stream(seed, offset, size);
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(offset);
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), begin)) << offset << " " << size;
      ASSERT_EQ(count_pattern_errors(seed, offset, piece), 0u);
    }
  }
}

TEST(Pattern, EveryWrongByteIsCounted) {
  const PatternSeed seed = message_seed(kToServer, 0, 0);
  for (const std::size_t size : {1u, 7u, 8u, 9u, 4095u, 4096u, 4097u, 10000u}) {
    auto bytes = stream(seed, 5, size);
    for (std::size_t at = 0; at < size; at += size / 3 + 1) {
      bytes[at] ^= 1;
      EXPECT_EQ(count_pattern_errors(seed, 5, bytes), 1u) << size << " " << at;
      bytes[at] ^= 1;
    }
  }
}

TEST(Pattern, DirectionQpAndIterationAllCount) {
  const auto differing = [](PatternSeed a, PatternSeed b) { return count_pattern_errors(a, 0, stream(b, 0, 4096)); };
  // By chance, one byte in 256 is equal.
  constexpr std::uint64_t kNearlyAll = 4000;
  EXPECT_GT(differing(message_seed(kToServer, 0, 0), message_seed(kToServer, 0, 1)), kNearlyAll);
  EXPECT_GT(differing(message_seed(kToServer, 0, 0), message_seed(kToServer, 1, 0)), kNearlyAll);
  EXPECT_GT(differing(message_seed(kToServer, 0, 1), message_seed(kToServer, 1, 0)), kNearlyAll);
  EXPECT_GT(differing(message_seed(kToServer, 0, 0), message_seed(opposite(kToServer), 0, 0)), kNearlyAll);
  EXPECT_GT(differing(message_seed(kToServer, 0, 0), read_source_seed(kToServer, 0)), kNearlyAll);
  // READs of neighbouring iterations look at different windows of one stream.
  const auto source = stream(read_source_seed(kToServer, 0), 0, 4096 + kReadSpread);
  EXPECT_GT(count_pattern_errors(read_source_seed(kToServer, 0), read_offset(1), std::span(source).first(4096)),
            kNearlyAll);
}

TEST(Workload, MixedRotatesThroughEveryOperation) {
  std::array<int, kOpCount> seen{};
  for (std::uint64_t i = 0; i < 2 * kOpCount; ++i) ++seen[static_cast<std::size_t>(op_at(Mix::kMixed, i))];
  for (const int count : seen) EXPECT_EQ(count, 2);
  EXPECT_EQ(op_at(Mix::kRead, 123), Op::kRead);
}

TEST(Workload, CountsOfOperationsAgreeWithTheSchedule) {
  for (const Mix mix : {Mix::kSend, Mix::kWriteImm, Mix::kCas, Mix::kMixed}) {
    std::uint64_t receives = 0;
    for (std::uint64_t i = 0; i < 30; ++i) {
      EXPECT_EQ(count_ops(mix, i, uses_receive), receives);
      if (uses_receive(op_at(mix, i))) ++receives;
    }
  }
}

TEST(Workload, Sizes) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4095"), 4095u);
  EXPECT_EQ(parse_size("64K"), 65536u);
  EXPECT_EQ(parse_size("1m"), 1u << 20);
  EXPECT_EQ(parse_size("64MiB"), 64u << 20);
  EXPECT_EQ(parse_size("2G"), std::uint64_t{2} << 30);
  for (const char* wrong : {"", "K", "-1", "1.5M", "12X", "1KK", "99999999999999999999", "99999999999G"}) {
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  }
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1000), "1000 B");
  EXPECT_EQ(size_text(65536), "64 KiB");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
}

TEST(WorkId, KeepsQpQueueAndSequence) {
  for (const WorkId id : {WorkId{0, false, 0}, WorkId{1023, true, 5}, WorkId{65535, false, WorkId::kSequenceMask}}) {
    const WorkId back = WorkId::decode(id.encode());
    EXPECT_EQ(back.qp, id.qp);
    EXPECT_EQ(back.receive, id.receive);
    EXPECT_EQ(back.sequence, id.sequence);
  }
}

TEST(Layout, PiecesTileTheMessageWithGapsBetween) {
  for (const std::uint64_t size : {0u, 1u, 2u, 3u, 100u, 4096u}) {
    for (const std::uint32_t sges : {1u, 2u, 3u, 7u, 32u}) {
      const auto pieces = split_message(size, sges);
      EXPECT_EQ(pieces.size(), std::min<std::uint64_t>(size, sges));
      std::uint64_t message_end = 0, slot_end = 0;
      for (const Piece& piece : pieces) {
        EXPECT_GT(piece.length, 0u);
        EXPECT_EQ(piece.in_message, message_end);
        EXPECT_TRUE(message_end == 0 ? piece.in_slot == 0 : piece.in_slot > slot_end);
        message_end += piece.length;
        slot_end = piece.in_slot + piece.length;
      }
      EXPECT_EQ(message_end, size);
      Workload w;
      w.size = size;
      w.sges = sges;
      EXPECT_LE(slot_end, make_layout(w, {true, false}).local_stride);
    }
  }
}

TEST(Layout, DepthIsReducedUntilMemorySuffices) {
  Workload w;
  w.verify = true;
  w.size = 64 << 20;
  w.qps = 4;
  w.depth = 32;
  EXPECT_FALSE(fit(w, {std::uint64_t{1} << 30, 32768, 1u << 20}));
  EXPECT_EQ(w.depth, 4u);
  EXPECT_EQ(w.receive_depth, 4u);
  EXPECT_LE(make_layout(w, {false, true}).per_qp * w.qps, std::uint64_t{1} << 30);
}

TEST(Layout, WhatIsNotVerifiedSharesSlots) {
  Workload w;
  w.size = 64 << 10;
  for (const std::uint32_t qps : {1u, 2u, 16u}) {
    w.qps = qps;
    w.depth = w.receive_depth = 8;
    const Layout shallow = make_layout(w, {true, true});
    w.depth = w.receive_depth = 512;
    const Layout deep = make_layout(w, {true, true});
    EXPECT_EQ(shallow.per_qp, deep.per_qp) << qps;
    EXPECT_EQ(deep.slots, std::max(4 / qps, 1u));
    EXPECT_EQ(deep.receive_slots, deep.slots);
  }
  w.depth = 2;
  w.receive_depth = 3;
  w.size = 1;
  EXPECT_EQ(make_layout(w, {true, true}).slots, 2u);  // No more than there are operations.
  EXPECT_EQ(make_layout(w, {true, true}).receive_slots, 3u);
  w.verify = true;
  w.size = 64 << 10;
  w.depth = 512;
  EXPECT_EQ(make_layout(w, {true, true}).slots, 512u);
  EXPECT_EQ(make_layout(w, {true, true}).receive_slots, 3u);
}

TEST(Layout, WhatCannotFitIsRefused) {
  Workload w;
  w.size = 64 << 20;
  w.qps = 256;
  const auto error = fit(w, {std::uint64_t{1} << 30, 32768, 1u << 20});
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("--max-memory"), std::string::npos);
  w.size = 8;
  EXPECT_TRUE(fit(w, {std::uint64_t{1} << 30, 32768, 100}));
  EXPECT_FALSE(fit(w, {std::uint64_t{1} << 30, 32768, 1000}));
  EXPECT_LE(completion_entries(w), 1000u);
}

TEST(Layout, ShortRunsTakeLittle) {
  Workload w;
  w.iterations = 2;
  EXPECT_FALSE(fit(w, {std::uint64_t{1} << 30, 32768, 1u << 20}));
  EXPECT_EQ(w.depth, 2u);
  EXPECT_EQ(w.receive_depth, 2u);
}

TEST(Layout, AreasOfAPartDoNotOverlap) {
  Workload w;
  w.mix = Mix::kMixed;
  w.size = 5000;
  w.sges = 3;
  w.bidirectional = true;
  const Layout l = make_layout(w, {true, true});
  EXPECT_GE(l.in, l.out + l.local_stride * l.slots);
  EXPECT_GE(l.window, l.in + l.local_stride * l.receive_slots);
  EXPECT_GE(l.source, l.window + l.window_stride * l.slots);
  EXPECT_GE(l.counters, l.source + w.size + kReadSpread);
  EXPECT_GE(l.per_qp, l.counters + 16);
  EXPECT_EQ(l.counters % 8, 0u);
  EXPECT_EQ(l.per_qp % 64, 0u);
}

TEST(Histogram, PercentilesAreCloseAndExtremesExact) {
  Histogram h;
  for (std::uint64_t v = 1; v <= 100000; ++v) h.add(v);
  EXPECT_EQ(h.count(), 100000u);
  EXPECT_EQ(h.min(), 1u);
  EXPECT_EQ(h.max(), 100000u);
  EXPECT_NEAR(h.mean(), 50000.5, 0.01);
  EXPECT_NEAR(static_cast<double>(h.percentile(0.5)), 50000, 50000 * 0.016);
  EXPECT_NEAR(static_cast<double>(h.percentile(0.99)), 99000, 99000 * 0.016);
  EXPECT_EQ(h.percentile(1), 100000u);
}

TEST(Histogram, EmptySingleAndHugeValues) {
  Histogram h;
  EXPECT_EQ(h.percentile(0.5), 0u);
  EXPECT_EQ(h.min(), 0u);
  h.add(12345678901);
  EXPECT_EQ(h.percentile(0.001), 12345678901u);
  EXPECT_EQ(h.percentile(0.999), 12345678901u);
  h.add(UINT64_MAX);
  EXPECT_EQ(h.max(), UINT64_MAX);
}

}  // namespace
}  // namespace uroce::tools
