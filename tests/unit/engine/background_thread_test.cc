// SPDX-License-Identifier: Apache-2.0
#include "engine/os/background_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

/// Joins a thread whose waking takes long. Whether it has woken up then.
bool joins_a_thread_that_wakes_slowly(int ready) {
  std::atomic<bool> is_awake = false;
  const auto thread = engine::start_background_thread([&] {
    {
      const engine::LeavableSleep sleep;
      for (int naps = 0; naps < 16; ++naps) {
        std::this_thread::sleep_for(10ms);
        if (naps == 10 && ::write(ready, "", 1) != 1) std::abort();  // The other thread waits for this one by now.
      }
    }
    is_awake = true;
  });
  thread->join();
  return is_awake;
}

/// By Ctrl-Z, a debugger, a virtual machine that pauses: of the time in which the thread had to wake up, it had
/// nothing.
TEST(BackgroundThread, IsNotLeftWhenTheWholeProgramWasStopped) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t program = ::fork();
  if (program == 0) std::_Exit(joins_a_thread_that_wakes_slowly(ready[1]) ? 0 : 1);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(::kill(program, SIGSTOP), 0);
  std::this_thread::sleep_for(800ms);
  ASSERT_EQ(::kill(program, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(program, &status, 0), program);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace uroce::test
