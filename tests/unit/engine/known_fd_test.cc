// SPDX-License-Identifier: Apache-2.0
#include "engine/os/known_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace uroce::test {
namespace {

using engine::Fd;
using engine::KnownFd;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
Fd opened() { return Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

TEST(KnownFd, ClosesItsOwn) {
  int number = -1;
  {
    const KnownFd fd(opened());
    number = fd.get();
    EXPECT_TRUE(fd.is_there());
  }
  EXPECT_FALSE(is_open(number));
}

TEST(KnownFd, LeavesWhatHasTakenItsNumber) {
  Fd other = opened();
  int number = -1;
  {
    KnownFd fd(opened());
    number = fd.get();
    ::close(number);
    EXPECT_FALSE(fd.is_there());
    ASSERT_EQ(::dup2(other.get(), number), number);
    EXPECT_FALSE(fd.is_there());
    fd = {};
  }
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(KnownFd, NoneIsNotThere) {
  EXPECT_FALSE(KnownFd().is_there());
  KnownFd from(opened());
  const KnownFd to(std::move(from));
  EXPECT_TRUE(to.is_there());
}

}  // namespace
}  // namespace uroce::test
