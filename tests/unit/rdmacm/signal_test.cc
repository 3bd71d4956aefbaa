// SPDX-License-Identifier: Apache-2.0
// What a signal handler may do in the middle of a command: its thread has the mutexes then, as here.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "engine/os/os_clock.h"
#include "tests/unit/rdmacm/two_devices.h"
#include "verbs/rdmacm/front.h"

namespace uroce::rdmacm {
namespace {

class SignalTest : public TwoDevices {
 protected:
  Front& front_ = Front::get();
};

TEST_F(SignalTest, CommandsInsideACommandAreRefused) {
  const std::uint32_t id = server_.made();
  {
    const std::scoped_lock inside(front_.command_mutex());
    EXPECT_EQ(server_.bind(id, kFirst, kPort), EDEADLK);
    EXPECT_EQ(front_.open_channel(0), -1);
    EXPECT_EQ(errno, EDEADLK);
  }
  EXPECT_EQ(server_.bind(id, kFirst, kPort), 0);
}

TEST_F(SignalTest, AChannelThatIsClosedInsideACommandEndsBehindIt) {
  listening();
  connected();
  {
    const std::scoped_lock inside(front_.command_mutex(), front_.event_mutex());
    client_.close();
  }
  EXPECT_FALSE(server_.is_readable());
  server_.made();
  EXPECT_EQ(server_.next().event, kDisconnected);
}

TEST_F(SignalTest, AForkInsideACommandDoesNotWaitForIt) {
  listening();  // With a NIC, there is more than one thread.
  const Instant begin = engine::os_now();
  {
    const std::scoped_lock inside(front_.command_mutex());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_LT(engine::os_now() - begin, std::chrono::seconds(10)) << "for those of other threads it waits 15 s";
  EXPECT_NE(server_.made(), ~0u);
}

}  // namespace
}  // namespace uroce::rdmacm
