// SPDX-License-Identifier: Apache-2.0
// Tokens are taken back from descriptors that block, one at a time, by this kernel's means and by older ones'.
#include "engine/os/take_back.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

#include "engine/os/fd.h"
#include "tests/support/old_kernel.h"

namespace uroce::engine {
namespace {

bool is_readable(const Fd& fd) {
  pollfd look{fd.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    from = Fd(ends[0]);
    to = Fd(ends[1]);
  }
  Fd from, to;
};

void takes_one_of_each() {
  const Fd counter(::eventfd(2, EFD_CLOEXEC | EFD_SEMAPHORE));
  const Pipe pipe;
  ASSERT_EQ(::write(pipe.to.get(), "12", 2), 2);
  for (const int left : {1, 0, -1}) {  // The last time there is nothing, and it does not wait.
    const TakenBack expected = left >= 0 ? TakenBack::kToken : TakenBack::kNothing;
    EXPECT_EQ(take_back(counter.get(), sizeof(std::uint64_t)), expected);
    EXPECT_EQ(is_readable(counter), left > 0);
    EXPECT_EQ(take_back(pipe.from.get(), 1), expected);
    EXPECT_EQ(is_readable(pipe.from), left > 0);
  }
}

/// Another thread reads the pipe all the while, and wins now and then. Each token is taken once, and counted right.
void never_waits_for_a_token_that_another_thread_took() {
  const Pipe pipe;
  constexpr int kTokens = 20'000;
  int by_other = 0, by_us = 0;
  std::thread other([&] {
    char token = 0;
    while (::read(pipe.from.get(), &token, 1) == 1 && token != 'e') ++by_other;
  });
  for (int i = 0; i < kTokens; ++i) {
    ASSERT_EQ(::write(pipe.to.get(), "t", 1), 1);
    const TakenBack taken = take_back(pipe.from.get(), 1);
    EXPECT_NE(taken, TakenBack::kNotOpen);
    if (taken == TakenBack::kToken) ++by_us;
  }
  EXPECT_EQ(::write(pipe.to.get(), "e", 1), 1);
  other.join();
  EXPECT_EQ(by_us + by_other, kTokens);
}

void says_when_it_is_not_open() {
  int closed = -1;
  { closed = Pipe().from.get(); }
  EXPECT_EQ(take_back(closed, 1), TakenBack::kNotOpen);
  EXPECT_EQ(take_back(-1, 1), TakenBack::kNotOpen);
}

TEST(TakeBack, TakesOneAndDoesNotWait) { takes_one_of_each(); }
TEST(TakeBack, SaysWhenItIsNotOpen) { says_when_it_is_not_open(); }
TEST(TakeBack, OthersMayReadThePipe) { never_waits_for_a_token_that_another_thread_took(); }

TEST(TakeBack, NeedsNoKernelThatReadsWithoutWaiting) {
  const bool has_run = uroce::test::without_nowait_reads([] {
    takes_one_of_each();
    says_when_it_is_not_open();
    never_waits_for_a_token_that_another_thread_took();
  });
  if (!has_run) GTEST_SKIP() << "threads can't filter their system calls here";
}

}  // namespace
}  // namespace uroce::engine
