// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "proto/crc32.h"
#include "verbs/ibverbs/host/guarded_memory.h"

namespace uroce::ibv::test {
namespace {

TEST(GuardedAccess, CopiesAreWholeWhereverTheBytesAre) {
  constexpr std::size_t kMost = 5000, kOffsets = 130;
  std::vector<std::uint8_t> from(kMost + kOffsets), to(kMost + kOffsets), wanted(kMost + kOffsets);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251 + 1);
  for (const std::size_t size : {0u, 1u, 7u, 8u, 31u, 32u, 33u, 255u, 511u, 512u, 513u, 1024u, 4095u, 4096u, 5000u}) {
    for (std::size_t offset = 0; offset < kOffsets; ++offset) {
      for (const bool is_target : {true, false}) {
        const std::size_t source = is_target ? 0 : offset, target = is_target ? offset : 0;
        std::fill(to.begin(), to.end(), std::uint8_t{0});
        std::fill(wanted.begin(), wanted.end(), std::uint8_t{0});
        std::copy_n(from.data() + source, size, wanted.data() + target);
        ASSERT_TRUE(uroce_guarded_copy(to.data() + target, from.data() + source, size));
        ASSERT_EQ(to, wanted) << size << " bytes from " << source << " to " << target;
      }
    }
  }
}

/// Wherever in it the memory ends: the quick copy (proto/crc32.cc) stops there, too.
TEST(GuardedAccess, ACopyWithCrcStopsWhereMemoryEnds) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::uint8_t*>(mapped);
  for (std::size_t i = 0; i < page; ++i) bytes[i] = static_cast<std::uint8_t>(i % 251 + 1);
  ASSERT_EQ(::mprotect(bytes + page, page, PROT_NONE), 0);
  GuardedMemory memory;
  memory.begin_turn(Instant{});
  std::vector<std::uint8_t> to(page);
  for (const std::size_t there : {std::size_t{0}, std::size_t{100}, std::size_t{700}, std::size_t{3000}, page}) {
    const std::uint8_t* const from = bytes + page - there;
    std::uint32_t crc = 5;
    ASSERT_TRUE(memory.copy_with_crc(to.data(), from, there, crc)) << there;
    EXPECT_EQ(crc, proto::crc32(5, {from, there})) << there;
    EXPECT_TRUE(std::equal(from, from + there, to.begin())) << there;
    if (there < page) {
      EXPECT_FALSE(memory.copy_with_crc(to.data(), from, there + 1, crc)) << there;
      EXPECT_FALSE(memory.copy_with_crc(to.data(), from, page, crc)) << there;
    }
  }
  ::munmap(mapped, 2 * page);
}

}  // namespace
}  // namespace uroce::ibv::test
