// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

}  // namespace
}  // namespace uroce::ibv::test
