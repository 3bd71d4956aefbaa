// SPDX-License-Identifier: Apache-2.0
// Counters that other processes read.
#include "verbs/ibverbs/host/published_counters.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "verbs/view/port_counters.h"

namespace uroce::ibv {
namespace {

std::string own_name(const char* test) { return std::string(test) + ' ' + std::to_string(getpid()); }

/// What `name` comes to, when former answers are forgotten.
std::uint64_t sent(const std::string& name) {
  std::this_thread::sleep_for(view::kCounterLifespan);
  return sum_of_published(name).nic.sent_pkts;
}

CounterSet counters(std::uint64_t sent_pkts) {
  CounterSet set;
  set.nic.sent_pkts = sent_pkts;
  set.link_downed = 1;
  return set;
}

TEST(PublishedCounters, AddUpUnderOneName) {
  const std::string name = own_name("add up");
  auto one = PublishedCounters::make(name), two = PublishedCounters::make(name), other = PublishedCounters::make("x");
  ASSERT_TRUE(one && two && other);
  one->publish(counters(5));
  two->publish(counters(7));
  other->publish(counters(1000));
  EXPECT_EQ(sent(name), 12u);
  EXPECT_EQ(sum_of_published(name).link_downed, 2u);
  two->publish(counters(8));
  EXPECT_EQ(sent(name), 13u);
}

TEST(PublishedCounters, AreGoneWithTheirOwner) {
  const std::string name = own_name("gone");
  PublishedCounters::make(name)->publish(counters(5));
  EXPECT_EQ(sent(name), 0u);
}

TEST(PublishedCounters, OfAnotherProcessAndNotTwiceAfterFork) {
  const std::string name = own_name("fork");
  const auto parents = PublishedCounters::make(name);
  parents->publish(counters(5));
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    const auto own = PublishedCounters::make(name);
    own->publish(counters(3));
    const bool told = write(to_parent[1], "x", 1) == 1 && read(to_child[0], &byte, 1) == 1;
    _exit(told ? 0 : 1);
  }
  ASSERT_EQ(read(to_parent[0], &byte, 1), 1);
  EXPECT_EQ(sent(name), 8u) << "the child has the parent's open, too";
  ASSERT_EQ(write(to_child[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sent(name), 5u);
  for (int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

TEST(PublishedCounters, NamesTellSettingsApart) {
  const auto a = proto::Gid::from_v4(127, 0, 0, 1), b = proto::Gid::from_v4(127, 0, 0, 2);
  EXPECT_NE(counters_name(0, {}), counters_name(1, {}));
  EXPECT_NE(counters_name(0, {}), counters_name(0, {a}));
  EXPECT_NE(counters_name(0, {a}), counters_name(0, {b}));
  EXPECT_EQ(counters_name(0, {a}), counters_name(0, {a, b})) << "an address may come while the NIC is open";
}

}  // namespace
}  // namespace uroce::ibv
