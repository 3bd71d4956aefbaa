// SPDX-License-Identifier: Apache-2.0
// Waiting in a process that may have few descriptors.
#include "engine/os/poll_all.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "engine/os/wake_event.h"

namespace uroce::test {
namespace {

TEST(PollAll, WaitsWhereNoDescriptorIsPermitted) {
  engine::WakeEvent quiet, loud;
  loud.signal();
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  for (const rlim_t permitted : {whole.rlim_cur, rlim_t{0}}) {
    const rlimit limit{.rlim_cur = permitted, .rlim_max = whole.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    pollfd polled[] = {{.fd = quiet.fd(), .events = POLLIN, .revents = 0},
                       {.fd = -1, .events = POLLIN, .revents = 0},
                       {.fd = loud.fd(), .events = POLLIN, .revents = 0}};
    const int ready = engine::poll_all(polled, nullptr);
    const timespec most{.tv_sec = 0, .tv_nsec = 1000};
    const int none = engine::poll_all(std::span(polled).first(2), &most);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
    EXPECT_EQ(ready, 1) << permitted;
    EXPECT_EQ(polled[2].revents, POLLIN);
    EXPECT_EQ(none, 0);
    EXPECT_EQ(polled[0].revents | polled[1].revents, 0);
  }
}

}  // namespace
}  // namespace uroce::test
