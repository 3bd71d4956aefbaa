// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/line_copier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "proto/base/copy_packet.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kMost = 4400;

struct Copies : testing::Test {
  alignas(64) std::array<std::uint8_t, kMost> from{};
  alignas(64) std::array<std::uint8_t, kMost> to{};

  Copies() { std::iota(from.begin(), from.end(), std::uint8_t{1}); }
  /// Whether exactly `size` bytes of `to` are those of `from`.
  bool is_copied(std::size_t size) const {
    return std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size), to.begin()) &&
           std::all_of(to.begin() + static_cast<std::ptrdiff_t>(size), to.end(), [](auto byte) { return byte == 0; });
  }
};

TEST_F(Copies, OfAllSizesAreWhole) {
  LineCopier copier;
  for (std::size_t size = 1; size < kMost; ++size) {
    to = {};
    copy_packet(to.data(), from.data(), size);
    ASSERT_TRUE(is_copied(size)) << size;
    to = {};
    copier.copy(to.data(), from.data(), size);
    copier.finish();
    ASSERT_TRUE(is_copied(size)) << size << (copier.has_streamed() ? " past" : " through") << " the caches";
  }
}

#ifdef __x86_64__

std::uint64_t ticks = 0, tick = 0;
/// Each copy takes one tick.
std::uint64_t fake_clock() { return ticks += tick; }

struct WayOfCopies : Copies {
  LineCopier copier{fake_clock};

  /// Copies; how often past the caches.
  int copy(int times) {
    int streamed = 0;
    for (int i = 0; i < times; ++i) {
      copier.copy(to.data(), from.data(), 4096);
      streamed += copier.has_streamed();
    }
    return streamed;
  }
  /// A trial: the other way first, then the way that is in use.
  void try_out(std::uint64_t other, std::uint64_t same) {
    tick = other;
    copy(8);
    tick = same;
    copy(8);
  }
};

TEST_F(WayOfCopies, IsPastTheCachesWhereThatIsMuchQuicker) {
  try_out(100, 500);
  EXPECT_EQ(copy(1008), 1008);
  try_out(500, 100);
  EXPECT_EQ(copy(1008), 1008) << "still";
}

TEST_F(WayOfCopies, IsThroughTheCachesWhereItIsNot) {
  try_out(100, 200);
  EXPECT_EQ(copy(1008), 0) << "the reader would have to fetch all of it from memory";
  EXPECT_EQ(copy(8), 8) << "tried now and then";
}

TEST_F(WayOfCopies, ChangesWhenTheProcessorsMove) {
  try_out(100, 500);
  EXPECT_EQ(copy(1008), 1008);
  try_out(200, 100);
  EXPECT_EQ(copy(1008), 0);
  try_out(100, 500);
  EXPECT_EQ(copy(1008), 1008);
}

#endif

}  // namespace
}  // namespace uroce::engine
