// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/blockers.h"

#include <gtest/gtest.h>

namespace uroce::engine {
namespace {

struct Reader {
  bool has_read = false;
};

struct BlockersTest : testing::Test {
  static bool has_read(const Reader& reader) { return reader.has_read; }
  Blockers<Reader> blockers;
  Reader a, b;
};

TEST_F(BlockersTest, TheLastOneThatGoesLeavesNone) {
  EXPECT_FALSE(blockers.are_any());
  blockers.add(a);
  EXPECT_TRUE(blockers.are_any());
  blockers.add(b);
  blockers.remove(a);
  EXPECT_TRUE(blockers.are_any());
  blockers.remove(b);
  EXPECT_FALSE(blockers.are_any());
}

TEST_F(BlockersTest, WhoIsNotAmongThemMayGo) {
  blockers.remove(a);
  EXPECT_FALSE(blockers.are_any());
  blockers.add(a);
  blockers.remove(b);
  EXPECT_TRUE(blockers.are_any());
}

TEST_F(BlockersTest, ThoseThatHaveReadGo) {
  blockers.add(a);
  blockers.add(b);
  a.has_read = true;
  EXPECT_TRUE(blockers.recheck(has_read));
  EXPECT_TRUE(blockers.are_any());
  b.has_read = true;
  EXPECT_FALSE(blockers.recheck(has_read));
  EXPECT_FALSE(blockers.are_any());
  a.has_read = b.has_read = false;
  EXPECT_FALSE(blockers.recheck(has_read)) << "they do not come back";
}

}  // namespace
}  // namespace uroce::engine
