// SPDX-License-Identifier: Apache-2.0
#include "engine/os/interrupts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "tests/support/in_child.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

class InterruptsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(interrupts_.refusal()); }

  /// A wait until `deadline` that an event ends at once, so that the alarm stays as it is.
  void interrupted_wait(Instant deadline) {
    interrupts_.wake();
    ASSERT_TRUE(interrupts_.wait(deadline));
  }
  static void pass(Instant time) {
    while (os_now() < time) continue;
  }

  Interrupts interrupts_;
};

TEST_F(InterruptsTest, AWaitEndsAtItsDeadlineAndNotBefore) {
  for (const Duration length : {2ms, 1ms, 5ms, 1ms}) {
    const Instant deadline = os_now() + length;
    EXPECT_FALSE(interrupts_.wait(deadline));
    EXPECT_GE(os_now(), deadline);
  }
}

TEST_F(InterruptsTest, AnAlarmOfAnEarlierWaitDoesNotEndALaterOne) {
  interrupted_wait(os_now() + 1ms);
  const Instant deadline = os_now() + 20ms;
  EXPECT_FALSE(interrupts_.wait(deadline));
  EXPECT_GE(os_now(), deadline);
}

TEST_F(InterruptsTest, AnEarlierDeadlineThanTheLastIsKept) {
  interrupted_wait(os_now() + 1h);
  EXPECT_FALSE(interrupts_.wait(os_now() + 1ms));
}

TEST_F(InterruptsTest, AnAlarmThatRangMeanwhileIsSetAgain) {
  const Instant first = os_now() + 1ms;
  interrupted_wait(first);
  pass(first + 1ms);
  EXPECT_FALSE(interrupts_.wait(os_now() + 1ms));
}

TEST_F(InterruptsTest, ALookDoesNotWaitAndMayTakeTheAlarm) {
  const Instant first = os_now() + 1ms;
  interrupted_wait(first);
  pass(first + 1ms);
  EXPECT_FALSE(interrupts_.wait(os_now()));
  EXPECT_FALSE(interrupts_.wait(os_now() + 1ms));
  EXPECT_FALSE(interrupts_.wait(Instant::min()));
  interrupts_.wake();
  EXPECT_TRUE(interrupts_.wait(os_now()));
}

TEST_F(InterruptsTest, ADozeDoesNotEndBeforeItsTime) {
  for (const Duration length : {2ms, 1ms, 5ms}) {
    const Instant earliest = os_now() + length;
    EXPECT_FALSE(interrupts_.doze(earliest, 1ms));
    EXPECT_GE(os_now(), earliest);
  }
}

TEST_F(InterruptsTest, AnAlarmDoesNotEndADoze) {
  interrupted_wait(os_now() + 1ms);
  const Instant earliest = os_now() + 20ms;
  EXPECT_FALSE(interrupts_.doze(earliest, 1ms));
  EXPECT_GE(os_now(), earliest);
}

TEST_F(InterruptsTest, AWakeUpEndsADoze) {
  interrupts_.wake();
  EXPECT_TRUE(interrupts_.doze(os_now() + 1h, 1ms));
}

TEST_F(InterruptsTest, WhileItDozesAThreadLeavesTheTimeToTheKernel) {
  static constinit std::atomic<bool> was_loose{false};
  static constinit Interrupts* dozing = nullptr;
  const int usual = ::prctl(PR_GET_TIMERSLACK);
  struct sigaction look {
  }, before{};
  look.sa_handler = [](int) {
    if (::prctl(PR_GET_TIMERSLACK) == 3'000'000) was_loose = true;  // The last signal may come behind the doze.
    dozing->wake();
  };
  dozing = &interrupts_;
  ASSERT_EQ(::sigaction(SIGUSR1, &look, &before), 0);
  std::atomic<bool> is_over = false;
  std::thread looker([&, dozer = ::pthread_self()] {
    while (!is_over) {
      ::pthread_kill(dozer, SIGUSR1);
      std::this_thread::yield();
    }
  });
  for (const Instant limit = os_now() + 10s; !was_loose && os_now() < limit;) interrupts_.doze(limit, 3ms);
  is_over = true;
  looker.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(was_loose);
  EXPECT_EQ(::prctl(PR_GET_TIMERSLACK), usual);
}

TEST_F(InterruptsTest, AnAlarmDoesNotEndAWaitWithoutDeadline) {
  const Fd packets(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  interrupts_.add(packets.get());
  interrupted_wait(os_now() + 1ms);
  std::thread sender([&] {
    pass(os_now() + 5ms);
    ::eventfd_write(packets.get(), 1);
  });
  EXPECT_TRUE(interrupts_.wait(std::nullopt));
  eventfd_t count = 0;
  EXPECT_EQ(::eventfd_read(packets.get(), &count), 0) << "it was the alarm";
  sender.join();
}

TEST_F(InterruptsTest, TheRareSocketIsMaskedByItself) {
  const Fd often(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), rare(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  interrupts_.add(often.get());
  interrupts_.add_rare(rare.get());
  EXPECT_EQ(interrupts_.sockets().size(), 2u);
  const auto is_woken = [this] { return interrupts_.wait(os_now()); };

  ::eventfd_write(rare.get(), 1);
  interrupts_.mask(true);
  EXPECT_TRUE(is_woken());
  interrupts_.mask_rare(true);
  EXPECT_FALSE(is_woken());
  ::eventfd_write(often.get(), 1);
  EXPECT_FALSE(is_woken());
  interrupts_.mask(false);
  EXPECT_TRUE(is_woken());
  eventfd_t count = 0;
  ::eventfd_read(often.get(), &count);
  EXPECT_FALSE(is_woken());
  interrupts_.mask_rare(false);
  EXPECT_TRUE(is_woken());
}

/// What epoll refuses: stands for a kernel that has no memory, or no room for another one of this user.
Fd refused_file() { return Fd(::memfd_create("refused", MFD_CLOEXEC)); }

TEST_F(InterruptsTest, ASocketThatCouldNotBeUnmaskedIsTriedAgain) {
  for (const bool is_rare : {false, true}) {
    const Fd packets(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)), refused = refused_file();
    const Fd socket(::fcntl(packets.get(), F_DUPFD_CLOEXEC, 0));
    const auto mask = [&](bool masked) { is_rare ? interrupts_.mask_rare(masked) : interrupts_.mask(masked); };
    is_rare ? interrupts_.add_rare(socket.get()) : interrupts_.add(socket.get());
    mask(true);
    ASSERT_EQ(::dup2(refused.get(), socket.get()), socket.get());
    std::thread unmasker([&] {
      pass(os_now() + 5ms);
      mask(false);
    });
    EXPECT_TRUE(interrupts_.wait(os_now() + 5s)) << "it does not know";
    unmasker.join();
    const Instant begin = os_now();
    EXPECT_TRUE(interrupts_.wait(begin + 5s)) << "nobody looks";
    EXPECT_LT(os_now() - begin, 1s);
    EXPECT_FALSE(interrupts_.wait(os_now())) << "a look takes no time, and finds nothing";
    ASSERT_EQ(::dup2(packets.get(), socket.get()), socket.get());
    EXPECT_TRUE(interrupts_.wait(os_now())) << "it stays deaf";
    mask(true);
    EXPECT_FALSE(interrupts_.wait(os_now()));
  }
}

/// valgrind warns of each system call that it does not know, also if it has just warned of it.
TEST(InterruptsWithoutPwait2, WaitWithoutAskingAgain) {
  EXPECT_EQ(test::in_child([] {
              Interrupts interrupts;
              const auto waits = [&interrupts] { return interrupts.wait(os_now() + 1ms) ? "woken " : "waited "; };
              test::forbid({__NR_epoll_pwait2}, ENOSYS);
              std::string said = waits();
              test::forbid({__NR_epoll_pwait2}, EBADF);  // The filter that came last decides.
              said += waits();
              interrupts.wake();
              return said + waits();
            }),
            "waited waited woken ");
}

/// Under libfaketime it refuses times that it takes for dates before 1970.
TEST(InterruptsWithoutAlarm, WaitUntilTheirDeadline) {
  EXPECT_EQ(test::in_child([] {
              Interrupts interrupts;
              test::forbid({__NR_timerfd_settime}, EINVAL);
              const Instant deadline = os_now() + 1ms;
              const std::string said = interrupts.wait(deadline) ? "woken" : "waited";
              return os_now() < deadline ? "too short" : said;
            }),
            "waited");
}

}  // namespace
}  // namespace uroce::engine
