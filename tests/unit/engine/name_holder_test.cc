// SPDX-License-Identifier: Apache-2.0
// The kernel says who has an abstract name, whether he listens or not.
#include "engine/os/name_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/os/fd.h"
#include "tests/support/own_network.h"

namespace uroce::engine {
namespace {

using ::testing::HasSubstr;

Fd bound(const AbstractName& name, int type) {
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), name.get(), name.size), 0);
  return fd;
}

TEST(NameHolder, IsKnownByItsUser) {
  UROCE_NEEDS_OWN_NETWORK();
  const AbstractName name("uroce-name-holder-test"), longer("uroce-name-holder-test-2");
  EXPECT_FALSE(holder_of(name));
  EXPECT_THAT(held_by_others(name), HasSubstr("another process"));
  {
    const Fd fd = bound(name, SOCK_SEQPACKET);
    EXPECT_EQ(holder_of(name), ::geteuid());
    EXPECT_FALSE(holder_of(longer));
    EXPECT_THAT(held_by_others(name), HasSubstr("user " + std::to_string(::geteuid())));
    EXPECT_THAT(held_by_others(name), HasSubstr("@uroce-name-holder-test"));
  }
  const Fd another(bound(name, SOCK_DGRAM));  // It keeps nobody away.
  EXPECT_FALSE(holder_of(name));
}

// The answer comes in several messages.
TEST(NameHolder, IsFoundAmongMany) {
  UROCE_NEEDS_OWN_NETWORK();
  std::vector<Fd> sockets;
  for (int i = 0; i < 900; ++i) {
    const AbstractName name("uroce-name-holder-test-" + std::to_string(i));
    sockets.push_back(bound(name, SOCK_SEQPACKET));
  }
  for (int i = 0; i < 900; i += 100)
    EXPECT_TRUE(holder_of(AbstractName("uroce-name-holder-test-" + std::to_string(i))));
}

}  // namespace
}  // namespace uroce::engine
