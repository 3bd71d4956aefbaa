// SPDX-License-Identifier: Apache-2.0
// The kernel says who has an abstract name, whether he listens or not.
#include "engine/os/name_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
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

#ifndef __SANITIZE_ADDRESS__
TEST(NameHolder, IsFoundOnASmallStack) {
  UROCE_NEEDS_OWN_NETWORK();
  const AbstractName name("uroce-name-holder-test");
  const Fd fd = bound(name, SOCK_SEQPACKET);
  constexpr std::size_t kStack = 32 << 10;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
  pthread_t thread{};
  const auto look = [](void* of) -> void* {
    return holder_of(*static_cast<const AbstractName*>(of)) == ::geteuid() ? of : nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, look, const_cast<AbstractName*>(&name)), 0);
  void* found = nullptr;
  EXPECT_EQ(pthread_join(thread, &found), 0);
  EXPECT_EQ(found, &name);
  pthread_attr_destroy(&attributes);
}
#endif

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
