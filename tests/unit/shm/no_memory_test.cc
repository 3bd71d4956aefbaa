// SPDX-License-Identifier: Apache-2.0
// Rings in a program that has taken all the memory that it may have.
#include "tests/support/operator_new.h"
#include "tests/unit/shm/shm_fixture.h"

namespace {

thread_local bool is_short = false;

}  // namespace

bool uroce::test::may_allocate() { return !is_short; }

namespace uroce::test {
namespace {

using NoMemory = ShmTest;

TEST_F(NoMemory, ToSendTakesNoneOnceThePeerIsKnown) {
  const auto a = open(1), b = open(2);
  ASSERT_TRUE(a && b);
  Inbox inbox;
  std::uint32_t sent = 0;
  for (const Instant limit = engine::os_now() + 5s; a->counters().sent_by_shm < 3 && engine::os_now() < limit;) {
    is_short = sent > 0;
    queue(*a, path(1, 2), sent++);
    is_short = false;
    a->flush();
    receive(*b, inbox, sent);
  }
  EXPECT_GE(a->counters().sent_by_shm, 3u);
  expect_in_order(inbox);
}

}  // namespace
}  // namespace uroce::test
