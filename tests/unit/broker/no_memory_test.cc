// SPDX-License-Identifier: Apache-2.0
// A lease, and a will, in a program that has taken all the memory that it may have.
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "engine/broker/wills.h"
#include "tests/support/operator_new.h"
#include "tests/unit/broker/lease_fixture.h"

namespace {

/// Threads other than the main one find no memory.
std::atomic<bool> is_short{false};
std::atomic<int> refusals{0};

}  // namespace

bool uroce::test::may_allocate() {
  if (!is_short || ::gettid() == ::getpid()) return true;
  ++refusals;
  return false;
}

namespace uroce::engine {
namespace {

using NoMemoryTest = LeaseTest;

TEST_F(NoMemoryTest, ALeaseThatFindsNoneIsRenewedWhenThereIsSome) {
  const Slot slot = lease();
  const pid_t old = broker();
  refusals = 0;
  is_short = true;
  ::kill(old, SIGKILL);
  EXPECT_TRUE(eventually([] { return refusals >= 3; })) << "it goes on trying";
  is_short = false;
  EXPECT_TRUE(eventually([old] { return broker() != 0 && broker() != old; }));
  EXPECT_TRUE(receives(slot));
  EXPECT_EQ(refusal(slot.number()).error, EBUSY);
}

TEST(NoMemory, AWillThatFindsNoneIsNotDeposited) {
  const std::array<std::uint8_t, 4> letter{};
  const auto wills = Wills::make();
  ASSERT_NE(wills, nullptr);
  std::thread([&] {
    EXPECT_TRUE(wills->deposit(1, {}, letter));
    EXPECT_TRUE(wills->deposit(1, {}, letter)) << "instead of the first one";
    is_short = true;
    const bool again = wills->deposit(1, {}, letter), other = wills->deposit(2, {}, letter);
    const std::size_t left = wills->size();
    wills->withdraw(1);
    is_short = false;
    EXPECT_TRUE(again) << "its place has been there before";
    EXPECT_FALSE(other);
    EXPECT_EQ(left, 1u);
    EXPECT_EQ(wills->size(), 0u);
    EXPECT_TRUE(wills->deposit(2, {}, letter));
  }).join();
}

}  // namespace
}  // namespace uroce::engine
