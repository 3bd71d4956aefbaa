// SPDX-License-Identifier: Apache-2.0
// What a process may do to memory that another one reads: nothing that makes the other fault.
#include "engine/shm/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <limits>

#include "engine/shm/bell.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kSize = 2 * kLargestPage;

TEST(SharedMemory, NobodyCanChangeItsSize) {
  const Fd memory = make_shared_memory(kSize);
  ASSERT_TRUE(is_shared_memory(memory.get(), kSize));
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory.get(), 2 * kSize), 0);
}

TEST(SharedMemory, OnlyTheRightKindAndSizeIsTaken) {
  const Fd right = make_shared_memory(kSize);
  EXPECT_FALSE(is_shared_memory(right.get(), kSize / 2));
  EXPECT_FALSE(is_shared_memory(right.get(), 2 * kSize));
  EXPECT_FALSE(is_shared_memory(-1, kSize));

  const Fd shrinkable(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(shrinkable.get(), kSize), 0);
  EXPECT_FALSE(is_shared_memory(shrinkable.get(), kSize)) << "the other side could have us read beyond its end";

  const Fd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), kSize) != 0) GTEST_SKIP() << "no file to try";
  EXPECT_FALSE(is_shared_memory(file.get(), kSize));
}

TEST(SharedMemory, ARingBeginsAgainBehindItsEnd) {
  const Fd memory = make_shared_memory(kSize);
  const auto mapping = Mapping::make(memory.get(), kSize / 2, kSize / 2, Mapping::Access::kReadWrite);
  ASSERT_TRUE(mapping);
  mapping->data()[kSize / 2] = 42;
  EXPECT_EQ(mapping->data()[kSize], 42);
}

TEST(SharedMemory, ARingIsMappedAtWholePages) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(kLargestPage % page, 0u) << "pages of this kernel are larger than any that we know";
  // Where they are smaller, half a page has the same effect as 4 KiB where they are 64.
  const Fd memory = make_shared_memory(kSize);
  EXPECT_FALSE(Mapping::make(memory.get(), page / 2, kSize - page / 2, Mapping::Access::kReadWrite));
  EXPECT_TRUE(Mapping::make(memory.get(), page, kSize - page, Mapping::Access::kReadWrite));
}

TEST(Bell, ItsMemoryCanOnlyBeReadByOthers) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  EXPECT_FALSE(Mapping::make(bell->memory_fd(), kBellMemory, 0, Mapping::Access::kReadWrite));
  EXPECT_TRUE(Mapping::make(bell->memory_fd(), kBellMemory, 0, Mapping::Access::kRead));
}

TEST(Bell, RingsOnceForEachSleep) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  const Fd memory(::fcntl(bell->memory_fd(), F_DUPFD_CLOEXEC, 0));
  auto rope = BellRope::adopt(Fd(::fcntl(bell->fd(), F_DUPFD_CLOEXEC, 0)), memory);
  ASSERT_TRUE(rope);
  EXPECT_FALSE(rope->ring_if_asleep()) << "it is awake";
  for (int sleep = 0; sleep < 3; ++sleep) {
    bell->set_asleep(true);
    EXPECT_TRUE(rope->ring_if_asleep());
    EXPECT_FALSE(rope->ring_if_asleep());
    bell->set_asleep(false);
    EXPECT_FALSE(rope->ring_if_asleep());
  }
  eventfd_t count = 0;
  EXPECT_EQ(::eventfd_read(bell->fd(), &count), 0);
  EXPECT_EQ(count, 3u);
}

Fd copy_of(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

/// The most that an eventfd counts: who adds to it waits, or is told so.
void fill(int event) { ASSERT_EQ(::eventfd_write(event, std::numeric_limits<eventfd_t>::max() - 1), 0); }

TEST(Bell, ThatWouldBlockWhoRingsIsNone) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  EXPECT_FALSE(BellRope::adopt(Fd(::eventfd(0, EFD_CLOEXEC)), copy_of(bell->memory_fd())));
  fill(bell->fd());
  EXPECT_FALSE(BellRope::adopt(copy_of(bell->fd()), copy_of(bell->memory_fd())));
}

/// Both sides have the same open file, and each can change its flags.
void have_it_block(int event) { ASSERT_EQ(::fcntl(event, F_SETFL, 0), 0); }

TEST(Bell, ThatComesToBlockIsBroken) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  auto rope = BellRope::adopt(copy_of(bell->fd()), copy_of(bell->memory_fd()));
  ASSERT_TRUE(rope);
  have_it_block(bell->fd());
  fill(bell->fd());
  bell->set_asleep(true);
  ::alarm(5);
  rope->ring_if_asleep();
  ::alarm(0);
  EXPECT_TRUE(rope->is_broken());
}

TEST(Bell, ItsOwnerNeverWaitsForARing) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  have_it_block(bell->fd());
  ::alarm(5);
  bell->forget_rings();
  ::alarm(0);
}

TEST(Bell, OtherThingsAreNoBells) {
  auto bell = Bell::make();
  ASSERT_TRUE(bell);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd out(ends[0]);
  EXPECT_FALSE(BellRope::adopt(Fd(ends[1]), copy_of(bell->memory_fd()))) << "writing to it might block";
  for (const int nameless :
       {::epoll_create1(EPOLL_CLOEXEC), ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), ::inotify_init1(IN_CLOEXEC)}) {
    ASSERT_GE(nameless, 0);
    EXPECT_FALSE(BellRope::adopt(Fd(nameless), copy_of(bell->memory_fd())));
  }
  EXPECT_FALSE(BellRope::adopt(copy_of(bell->fd()), copy_of(bell->fd())));
  EXPECT_FALSE(BellRope::adopt(copy_of(bell->fd()), make_shared_memory(2 * kBellMemory)));
  EXPECT_FALSE(BellRope::adopt(Fd(), Fd()));
}

}  // namespace
}  // namespace uroce::engine
