// SPDX-License-Identifier: Apache-2.0
// A ring that nobody uses any more serves again; no descriptor of anybody else is touched for it.
#include "engine/port/idle_rings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/port/ring.h"

namespace uroce::engine {
namespace {

constexpr unsigned kEntries = 8, kCompletions = 32;  // Not those of a port: other tests' rings are none of ours.

Ring opened() {
  auto ring = Ring::open(kEntries, kCompletions);
  EXPECT_TRUE(ring.ok());
  return std::move(*ring);
}
/// Opens a ring, lets go of it, and returns its descriptor.
int let_go() { return opened().get()->ring_fd; }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(IdleRings, OneServesAgain) {
  const int fd = let_go();
  EXPECT_TRUE(is_open(fd));
  const Ring next = opened();
  EXPECT_EQ(next.get()->ring_fd, fd);
  const Ring another = opened();
  EXPECT_NE(another.get()->ring_fd, fd);
}

TEST(IdleRings, OneServesAgainAndAgain) {
  // The self-test of each opening takes one of four buffers: a kernel that goes on where the last one ended runs out.
  for (int i = 0; i < 8; ++i) let_go();
}

TEST(IdleRings, OneOfOtherSizesDoesNot) {
  const int fd = let_go();
  EXPECT_EQ(take_idle(kEntries * 2, kCompletions), nullptr);
  EXPECT_EQ(opened().get()->ring_fd, fd) << "it is still there";
}

TEST(IdleRings, OneWhoseDescriptorTheProgramHasClosedIsForgotten) {
  const int fd = let_go();
  ASSERT_EQ(::close(fd), 0);
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::dup2(file, fd), fd);
  const Ring next = opened();
  EXPECT_NE(next.get()->ring_fd, fd);
  EXPECT_TRUE(is_open(fd)) << "the program's file";
  ::close(fd);
  ::close(file);
}

/// In a process that has kept none yet, a ring is kept when fork() has begun already: who closes a NIC has the lock
/// that fork() waits for.
TEST(IdleRingsDeathTest, AChildHasNoneThatIsKeptWhileForkWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fork_meanwhile = [] {
    pthread_atfork([] { let_go(); }, nullptr, nullptr);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(take_idle(kEntries, kCompletions) == nullptr ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    ::_exit(WEXITSTATUS(status));
  };
  EXPECT_EXIT(fork_meanwhile(), testing::ExitedWithCode(0), "");
}

TEST(IdleRings, AChildOfForkHasNone) {
  const int fd = let_go();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool had = is_open(fd) || take_idle(kEntries, kCompletions) != nullptr;
    ::_exit(had ? 1 : opened().get() == nullptr ? 2 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(opened().get()->ring_fd, fd) << "the parent's";
}

}  // namespace
}  // namespace uroce::engine
