// SPDX-License-Identifier: Apache-2.0
// A lease in a program that has taken all the memory that it may have.
#include <unistd.h>

#include <atomic>

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

}  // namespace
}  // namespace uroce::engine
