// SPDX-License-Identifier: Apache-2.0
// Links that never come about, and links that end: strangers, broken peers, killed and stopped processes, fork().
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <limits>
#include <thread>

#include "engine/os/unix_message.h"
#include "proto/address.h"
#include "tests/unit/shm/shm_fixture.h"

namespace uroce::test {
namespace {

using engine::Fd;

class LinkTest : public ShmTest {
 protected:
  /// A connection to the NIC at `number`, as another NIC makes it.
  static Fd visit(std::uint8_t number) {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const engine::AbstractName name = engine::wire_name(address(number), 0);
    if (::connect(fd.get(), name.get(), name.size) != 0) return {};
    return fd;
  }
  static bool is_closed(const Fd& fd) {
    pollfd polled{.fd = fd.get(), .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&polled, 1, 5000) == 1 && ::recv(fd.get(), &byte, 1, 0) <= 0;
  }
  static engine::Hello hello(std::uint8_t from, std::uint8_t to) {
    engine::Hello hello;
    hello.link = {.source = address(from), .destination = address(to), .slot = 0};
    return hello;
  }
};

TEST_F(LinkTest, StrangersGetNoLinkAndDisturbNobody) {
  const auto a = open(1);
  const auto b = open(2);
  ASSERT_TRUE(a && b);
  const Fd ring = engine::make_shared_memory(engine::kRingMemory);
  const Fd small = engine::make_shared_memory(engine::kRingMemory / 2);

  std::vector<Fd> refused;
  const auto say = [&](const auto& words, std::vector<int> descriptors) {
    refused.push_back(visit(2));
    ASSERT_TRUE(refused.back());
    EXPECT_TRUE(engine::send_message(refused.back().get(), words, descriptors));
  };
  engine::Hello other_version = hello(1, 2), other_address = hello(1, 3), other_slot = hello(1, 2);
  ++other_version.protocol;
  other_slot.link.slot = 9;
  say(std::array<char, 3>{}, {});
  say(std::array<char, 4000>{}, {ring.get()});
  say(hello(1, 2), {});
  say(hello(1, 2), {small.get()});
  say(hello(1, 2), {refused.front().get()});
  say(hello(1, 2), {ring.get(), ring.get()});
  say(other_version, {ring.get()});
  say(other_address, {ring.get()});
  say(other_slot, {ring.get()});
  for (const Fd& fd : refused) EXPECT_TRUE(is_closed(fd));
  const Fd silent = visit(2);
  EXPECT_TRUE(link(*a, *b, path(1, 2)));
  EXPECT_TRUE(is_closed(silent)) << "nobody is waited for without end";
}

// What is captured of such a link would be no frame.
TEST_F(LinkTest, NobodySendsFromAnAddressThatNoNicHas) {
  const auto b = open(2);
  ASSERT_TRUE(b);
  const Fd ring = engine::make_shared_memory(engine::kRingMemory);
  for (const char* const source : {"::1", "2001:db8::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "fe80::1"}) {
    engine::Hello impossible = hello(1, 2);
    impossible.link.source = proto::parse_gid(source).value();
    const Fd visitor = visit(2);
    ASSERT_TRUE(visitor && engine::send_message(visitor.get(), impossible, std::array{ring.get()}));
    EXPECT_TRUE(is_closed(visitor)) << source;
  }
  Inbox inbox;
  b->exchange(inbox, 64);
  EXPECT_EQ(b->links_in(), 0u);
}

/// Another user: takes the name of the NIC at 127.0.0.3, where the kernel lets nobody else have the address, and asks
/// the NIC at 127.0.0.2 for a link. 0: neither was a success.
int be_a_stranger() {
  if (::setresuid(12345, 12345, 12345) != 0) return 2;
  const Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const engine::AbstractName name = engine::wire_name(proto::Gid::from_v4(127, 0, 0, 3), 0);
  if (::bind(listener.get(), name.get(), name.size) != 0 || ::listen(listener.get(), 8) != 0) return 3;
  const Fd caller(::accept(listener.get(), nullptr, nullptr));
  const auto bell = engine::Bell::make();
  char byte = 0;
  engine::send_message(caller.get(), engine::Welcome{},
                       std::array{bell->memory_fd(), bell->fd(), bell->memory_fd(), bell->fd()});
  while (::recv(caller.get(), &byte, 1, 0) > 0) continue;

  const Fd visitor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const engine::AbstractName other = engine::wire_name(proto::Gid::from_v4(127, 0, 0, 2), 0);
  if (::connect(visitor.get(), other.get(), other.size) != 0) return 4;
  engine::Hello hello;
  hello.link = {.source = proto::Gid::from_v4(127, 0, 0, 3), .destination = proto::Gid::from_v4(127, 0, 0, 2)};
  const Fd ring = engine::make_shared_memory(engine::kRingMemory);
  engine::send_message(visitor.get(), hello, std::array{ring.get()});
  return ::recv(visitor.get(), &byte, 1, 0) > 0 ? 1 : 0;
}

TEST_F(LinkTest, AnotherUserGetsNoLink) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(be_a_stranger());
  const auto a = open(1);
  const auto plain = open_udp(3);
  const auto b = open(2);
  ASSERT_TRUE(a && plain && b);
  int status = -1;
  const Instant limit = engine::os_now() + 5s;
  // It may take a moment until the stranger listens, and packets ask again after a second.
  while (::waitpid(child, &status, WNOHANG) == 0 && engine::os_now() < limit) {
    EXPECT_FALSE(link(*a, *plain, path(1, 3), 0, 20ms));
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(LinkTest, APeerThatBreaksTheRulesLosesItsLinkOnly) {
  const auto b = open(2);
  const auto c = open(3);
  ASSERT_TRUE(b && c);
  ASSERT_TRUE(link(*c, *b, path(3, 2)));
  const Fd ring = engine::make_shared_memory(engine::kRingMemory);
  const auto memory =
      engine::Mapping::make(ring.get(), engine::kRingHead, engine::kRingBytes, engine::Mapping::Access::kReadWrite);
  const Fd broken = visit(2);
  ASSERT_TRUE(broken && memory);
  ASSERT_TRUE(engine::send_message(broken.get(), hello(1, 2), std::array{ring.get()}));
  pollfd polled{.fd = broken.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&polled, 1, 5000), 1) << "welcome";
  engine::Welcome welcome;
  std::vector<Fd> descriptors;
  ASSERT_TRUE(engine::receive_message(broken.get(), welcome, descriptors));
  std::memset(memory->data(), 0xA5, engine::kRingMemory);
  Inbox inbox;
  const Instant limit = engine::os_now() + 5s;
  char byte = 0;
  while (::recv(broken.get(), &byte, 1, 0) < 0 && engine::os_now() < limit) b->exchange(inbox, 64);
  EXPECT_LT(engine::os_now(), limit) << "it keeps the link";
  EXPECT_TRUE(inbox.packets.empty());
  EXPECT_TRUE(link(*c, *b, path(3, 2)));
}

/// What a hostile peer welcomes others with: bells of somebody who sleeps, which can be made to block.
class HostileBell {
 public:
  HostileBell() : memory_(engine::make_shared_memory(engine::kBellMemory)), event_(::eventfd(0, EFD_NONBLOCK)) {
    const std::uint32_t asleep = 1;
    EXPECT_EQ(::pwrite(memory_.get(), &asleep, sizeof asleep, 0), static_cast<ssize_t>(sizeof asleep));
  }
  int memory() const { return memory_.get(); }
  int event() const { return event_.get(); }
  void block() const {
    EXPECT_EQ(::fcntl(event(), F_SETFL, 0), 0);
    EXPECT_EQ(::eventfd_write(event(), std::numeric_limits<eventfd_t>::max() - 1), 0);
  }

 private:
  Fd memory_;
  Fd event_;
};

TEST_F(LinkTest, APeerWhoseBellWouldBlockIsReachedByUdp) {
  const auto a = open(1);
  const auto plain = open_udp(3);
  ASSERT_TRUE(a && plain);
  const Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const engine::AbstractName name = engine::wire_name(address(3), 0);
  ASSERT_EQ(::bind(listener.get(), name.get(), name.size), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  const HostileBell bell;
  queue(*a, path(1, 3), 0);
  a->flush();
  const Fd caller(::accept(listener.get(), nullptr, nullptr));
  pollfd polled{.fd = caller.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&polled, 1, 5000), 1) << "hello";
  engine::Hello hello;
  std::vector<Fd> ring;
  ASSERT_TRUE(engine::receive_message(caller.get(), hello, ring));
  ASSERT_TRUE(engine::send_message(caller.get(), engine::Welcome{},
                                   std::array{bell.memory(), bell.event(), bell.memory(), bell.event()}));
  Inbox inbox;
  const Instant limit = engine::os_now() + 5s;
  while (a->counters().sent_by_shm == 0 && engine::os_now() < limit) {
    plain->exchange(inbox, 64);
    queue(*a, path(1, 3), 0);
    if (a->counters().sent_by_shm == 0) a->flush();
  }
  ASSERT_EQ(a->counters().sent_by_shm, 1u);
  bell.block();
  ::alarm(10);
  a->flush();
  EXPECT_TRUE(unlinks(*a, path(1, 3)));
  ::alarm(0);
  EXPECT_TRUE(is_closed(caller));
}

TEST_F(LinkTest, WhatAKilledProcessWroteIsReadAndItsRingGivenBack) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto a = open(1);
    // The other one reads nothing meanwhile; few packets, so that its socket keeps them.
    while (a && a->counters().sent_by_shm == 0) {
      queue(*a, path(1, 2), 0);
      a->flush();
      std::this_thread::sleep_for(1ms);
    }
    for (int i = 0; i < 10; ++i) queue(*a, path(1, 2), 1);
    a->flush();
    [[maybe_unused]] const auto n = ::write(ready[1], "", 1);
    while (true) ::pause();
  }
  const auto b = open(2);
  ASSERT_TRUE(b);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Inbox inbox;
  const Instant limit = engine::os_now() + 5s;
  const auto last = [&] { return !inbox.packets.empty() && number_of(inbox.packets.back()) == 1; };
  while ((!last() || b->counters().received_by_shm < 10) && engine::os_now() < limit) b->exchange(inbox, 64);
  EXPECT_GE(b->counters().received_by_shm, 10u);
  // The keeper sees the end in its own time.
  while (b->links_in() > 0 && engine::os_now() < limit) b->exchange(inbox, 64);
  EXPECT_EQ(b->links_in(), 0u);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(LinkTest, AStoppedPeerIsReachedByUdp) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto b = open(2);
    [[maybe_unused]] const auto n = ::write(ready[1], "", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);  // All of its threads have stopped now.
  const auto a = open(1);
  const auto c = open(3);
  ASSERT_TRUE(a && c);
  for (int i = 0; i < 100; ++i) {
    queue(*a, path(1, 2), 0);
    a->flush();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(a->counters().sent_packets, 100u);
  EXPECT_EQ(a->counters().sent_by_shm, 0u);
  EXPECT_TRUE(link(*a, *c, path(1, 3)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(LinkTest, ALinkEndsWithItsPortAndANewOneIsMade) {
  const auto a = open(1);
  auto b = open(2);
  ASSERT_TRUE(a && b);
  ASSERT_TRUE(link(*a, *b, path(1, 2)));
  b.reset();
  EXPECT_TRUE(unlinks(*a, path(1, 2)));
  b = open(2);
  ASSERT_TRUE(b);
  EXPECT_TRUE(link(*a, *b, path(1, 2)));
}

TEST_F(LinkTest, AChildOfForkHasNoLinks) {
  const auto a = open(1);
  auto b = open(2);
  ASSERT_TRUE(a && b && link(*a, *b, path(1, 2)) && link(*b, *a, path(2, 1)));
  b->before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    b->abandon_after_fork();
    while (true) ::pause();
  }
  b->after_fork_in_parent();
  EXPECT_TRUE(link(*b, *a, path(2, 1))) << "the parent's links go on";
  EXPECT_TRUE(link(*a, *b, path(1, 2)));
  b.reset();
  EXPECT_TRUE(unlinks(*a, path(1, 2))) << "the child holds none of the descriptors";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace uroce::test
