// SPDX-License-Identifier: Apache-2.0
// Devices of several processes on the same addresses, seen through the verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "tests/support/own_network.h"
#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

/// Before the first verb, which reads it, and after support.cc has cleared it.
class OneAddress final : public testing::Environment {
 public:
  void SetUp() override { setenv("UROCE_ADDR", "127.0.0.1;127.0.0.2", 1); }
};
[[maybe_unused]] const testing::Environment* const kOneAddress = testing::AddGlobalTestEnvironment(new OneAddress);

/// A SEND from `a` to `b`.
void exchange(Pair& p) {
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 5000)), 0);
  struct ibv_sge sge = p.a.sge(0, 5000);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_SUCCESS);
}

/// Runs `body` in a child of fork(), which ends with the status that it returns.
template <class Body>
pid_t in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class OneAddressTest : public testing::Test {
 protected:
  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }
};

TEST_F(OneAddressTest, ProcessesHaveSlotsOfTheirOwnAndTheSameGids) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  Pair p;
  const pid_t child = in_child([&] {
    Pair own;
    if (own.qa->qp_num >> 16 == p.qa->qp_num >> 16 || own.qb->qp_num >> 16 == p.qb->qp_num >> 16) return 1;
    const union ibv_gid gid = own.a.gid();
    if (std::memcmp(p.a.gid().raw, gid.raw, sizeof gid.raw) != 0) return 2;
    exchange(own);
    if (nic_facts(own.b.context.get())->counters.unknown_qp != 0) return 3;
    return testing::Test::HasFailure() ? 4 : 0;
  });
  exchange(p);
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(nic_facts(p.b.context.get())->counters.unknown_qp, 0u);
}

/// What the first QP and the first region have, of a NIC that is opened under this UROCE_SEED; the slot left out.
std::pair<std::uint32_t, std::uint32_t> first_numbers(const char* seed) {
  setenv("UROCE_SEED", seed, 1);
  Node node(0);
  unsetenv("UROCE_SEED");
  return {node.make_qp()->qp_num & 0xFFFF, node.mr->rkey};
}

TEST_F(OneAddressTest, ASeedDecidesAllNumbersButTheSlot) {
  EXPECT_EQ(first_numbers("7"), first_numbers("7"));
  EXPECT_NE(first_numbers("7"), first_numbers("8"));
  EXPECT_EQ(first_numbers("0"), std::pair(0x11u, 0x1f8u));
}

TEST_F(OneAddressTest, BrokerOffKeepsTheAddressForOne) {
  setenv("UROCE_BROKER", "off", 1);
  {
    const ContextPtr first = open_device(0);
    const auto refusal = [] {
      int count = 0;
      struct ibv_device** list = v().ibv_get_device_list(&count);
      struct ibv_context* second = v().ibv_open_device(list[0]);
      const int error = second == nullptr ? errno : 0;
      v().ibv_free_device_list(list);
      return error;
    };
    const pid_t child = in_child([&] {
      const bool is_told = refusal() == EADDRINUSE && last_error().find("UROCE_ADDR=") != std::string::npos;
      setenv("UROCE_BROKER", "sometimes", 1);
      const bool is_checked = refusal() == EINVAL && last_error().find("UROCE_BROKER") != std::string::npos;
      return (is_told ? 0 : 1) + (is_checked ? 0 : 2);
    });
    EXPECT_EQ(status_of(child), 0);
  }
  unsetenv("UROCE_BROKER");
}

TEST_F(OneAddressTest, AChildOfForkOpensItsOwnDeviceOnTheAddressAndItsParentGoesOn) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  Pair p;
  exchange(p);
  const std::uint32_t slot = p.qa->qp_num >> 16;
  const pid_t child = in_child([&] {
    struct ibv_sge sge = p.a.sge(0, 8);
    if (post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)) != EIO) return 1;
    Pair own;  // On the same devices and the same address.
    if (own.qa->qp_num >> 16 == slot) return 2;
    for (int i = 0; i < 10; ++i) exchange(own);
    return testing::Test::HasFailure() ? 3 : 0;
  });
  for (int i = 0; i < 10; ++i) exchange(p);
  EXPECT_EQ(status_of(child), 0);
  for (int i = 0; i < 10; ++i) exchange(p);
}

TEST_F(OneAddressTest, ChildrenThatLiveOnKeepNothingOfTheirParentsDevice) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = 0;
  {
    Pair p;
    child = in_child([&] {
      char byte = 0;
      close(ends[1]);
      return static_cast<int>(read(ends[0], &byte, 1));  // Until the parent says so.
    });
    exchange(p);
  }
  // With a NIC of its own on the address, which works only if nothing of the old ones is left.
  setenv("UROCE_BROKER", "off", 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  struct ibv_context* alone = nullptr;
  int count = 0;
  struct ibv_device** list = v().ibv_get_device_list(&count);
  while (alone == nullptr && std::chrono::steady_clock::now() < deadline) alone = v().ibv_open_device(list[0]);
  EXPECT_NE(alone, nullptr) << last_error();
  if (alone != nullptr) {
    EXPECT_EQ(v().ibv_close_device(alone), 0);
  }
  v().ibv_free_device_list(list);
  unsetenv("UROCE_BROKER");
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace uroce::ibv::test
