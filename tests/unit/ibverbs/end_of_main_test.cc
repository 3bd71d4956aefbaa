// SPDX-License-Identifier: Apache-2.0
// Processes that go on when their main thread has ended, and end with the last thread of the program; and such that
// close all their descriptors, the NIC's, too: end_of_main.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"

namespace uroce::ibv::test {
namespace {

/// Generous: sanitizers and busy machines are slow.
constexpr auto kPatience = std::chrono::seconds(30);

class Program {
 public:
  /// Starts it; `how` its main thread ends.
  explicit Program(const char* how) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    output_ = engine::Fd(ends[0]);
    const engine::Fd written(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(written.get(), STDOUT_FILENO);
    ::execl(UROCE_BIN_DIR "/end_of_main", "end_of_main", how, nullptr);
    ::_exit(127);
  }
  ~Program() {
    if (!has_ended_) ::kill(pid_, SIGKILL);
    if (!has_ended_) ::waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// Its next line, or "" when it has ended or time is over.
  std::string line() {
    std::string text;
    for (char c = 0; next(c) && c != '\n';) text += c;
    return text;
  }
  /// What it still says, and how it ends.
  std::string rest() {
    std::string text;
    for (char c = 0; next(c);) text += c == '\n' ? ' ' : c;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (engine::os_now() >= limit_) return text + "and goes on";
      std::this_thread::yield();
    }
    has_ended_ = true;
    if (WIFSIGNALED(status)) return text + "signal " + std::to_string(WTERMSIG(status));
    return text + "status " + std::to_string(WEXITSTATUS(status));
  }

 private:
  bool next(char& c) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit_ - engine::os_now());
    pollfd polled{.fd = output_.get(), .events = POLLIN, .revents = 0};
    return left.count() > 0 && ::poll(&polled, 1, static_cast<int>(left.count())) == 1 &&
           ::read(output_.get(), &c, 1) == 1;
  }

  const Instant limit_ = engine::os_now() + kPatience;
  engine::Fd output_;
  pid_t pid_ = -1;
  bool has_ended_ = false;
};

class EndOfMain : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer has a thread of its own, which keeps such a process for ever";
#endif
  }
};

TEST_F(EndOfMain, TheProcessExitsWithItsLastThread) { EXPECT_EQ(Program("works").rest(), "exchanged atexit status 0"); }

TEST_F(EndOfMain, TheSameWhereItIsCancelled) { EXPECT_EQ(Program("is_cancelled").rest(), "exchanged atexit status 0"); }

TEST_F(EndOfMain, TheSameWithoutAnyOtherThread) { EXPECT_EQ(Program("is_alone").rest(), "atexit status 0"); }

TEST_F(EndOfMain, TheSameWhereTheDeviceIsOpenedAfterwards) {
  EXPECT_EQ(Program("opens_behind").rest(), "exchanged atexit status 0");
}

TEST_F(EndOfMain, TheSameWhereTheDeviceIsClosedAfterwards) {
  EXPECT_EQ(Program("closes_behind").rest(), "atexit status 0");
}

TEST_F(EndOfMain, TheSameWhereNoThreadCanBeStarted) {
  EXPECT_EQ(Program("lacks_a_thread").rest(), "exchanged atexit status 0");
}

TEST_F(EndOfMain, AChildOfAForkAfterwardsHasAMainThreadOfItsOwn) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers do not let children of fork() use threads";
#endif
  EXPECT_EQ(Program("forks").rest(), "exchanged atexit its child has ended atexit status 0");
}

TEST_F(EndOfMain, WhatIsExecutedAfterwardsGetsItsSignals) {
  EXPECT_EQ(Program("executes").rest(), "executed signal 15");
}

TEST_F(EndOfMain, ASignalEndsTheProcessWhenOnlyOurThreadsAreLeft) {
  Program program("awaits_a_signal");
  const std::string worker = "/proc/" + std::to_string(program.pid()) + "/task/" + program.line();
  // Our threads notice later than that.
  while (std::filesystem::exists(worker)) std::this_thread::yield();
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.rest(), "signal 15");
}

TEST(OrdinaryEndOfMain, TheProcessExitsAsItSays) { EXPECT_EQ(Program("returns").rest(), "exchanged atexit status 3"); }

TEST(ClosedDescriptors, ADeviceIsClosedThatHasNoneLeft) {
  EXPECT_EQ(Program("closes_descriptors").rest(), "closed atexit status 0");
}

TEST(ClosedDescriptors, TheSameWhereItsThreadsSleepOnThem) {
  EXPECT_EQ(Program("closes_descriptors_asleep").rest(), "closed atexit status 0");
}

TEST(ClosedDescriptors, TheProcessExitsWithTheDeviceOpen) {
  EXPECT_EQ(Program("closes_descriptors_asleep_exits").rest(), "closed atexit status 0");
}

}  // namespace
}  // namespace uroce::ibv::test
