// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace uroce::proto {
namespace {

using Buffer = std::vector<std::uint8_t>;

Buffer random_bytes(std::mt19937& random, std::size_t size) {
  Buffer bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TEST(Crc32, KnownAnswer) {
  const Buffer digits{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32(0, digits), 0xCBF43926u);
  EXPECT_EQ(crc32(crc32(0, Bytes(digits).first(4)), Bytes(digits).subspan(4)), 0xCBF43926u);
  EXPECT_EQ(crc32(7, {}), 7u);
}

/// All numbers of lines that the four lanes of the quick copy take differently, with all rests, from and to anywhere.
TEST(Crc32, OnePassIsACopyAndACrc) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 1200; size += size < 600 ? 1 : 7) {
    const std::size_t shift = random() % 64;
    const Buffer from = random_bytes(random, size + shift + 1);
    Buffer to(size + 64 + 1, 0xA5);
    const auto seed = static_cast<std::uint32_t>(random());
    ASSERT_EQ(copy_with_crc32(seed, to.data() + 63 - shift, from.data() + shift, size),
              crc32(seed, Bytes(from).subspan(shift, size)))
        << size;
    ASSERT_EQ(std::memcmp(to.data() + 63 - shift, from.data() + shift, size), 0) << size;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (i < 63 - shift || i >= 63 - shift + size) {
        ASSERT_EQ(to[i], 0xA5) << size << " bytes, at " << i;
      }
    }
  }
  const Buffer large = random_bytes(random, 1 << 20);
  Buffer to(large.size());
  EXPECT_EQ(copy_with_crc32(0, to.data(), large.data(), large.size()), crc32(0, large));
  EXPECT_EQ(to, large);
}

}  // namespace
}  // namespace uroce::proto
