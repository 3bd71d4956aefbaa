// SPDX-License-Identifier: Apache-2.0
#include "proto/base/errno_name.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::proto {
namespace {

TEST(ErrnoName, AreThoseOfLibc) {
  constexpr int kMost = 4095;  // The kernel's MAX_ERRNO.
  for (int error = 1; error <= kMost; ++error) {
    const char* const name = ::strerrorname_np(error);
    EXPECT_EQ(errno_name(error), name == nullptr ? "" : name) << error;
    if (name == nullptr) continue;
    EXPECT_EQ(errno_named(name), error);
  }
  EXPECT_EQ(errno_name(0), "");
}

TEST(ErrnoName, SecondNamesAreKnown) {
  EXPECT_EQ(errno_named("EWOULDBLOCK"), EAGAIN);
  EXPECT_EQ(errno_named("EDEADLOCK"), EDEADLK);
  EXPECT_EQ(errno_named("ENOTSUP"), EOPNOTSUPP);
  EXPECT_EQ(errno_named("ENOSUCH"), std::nullopt);
  EXPECT_EQ(errno_named(""), std::nullopt);
}

}  // namespace
}  // namespace uroce::proto
