// SPDX-License-Identifier: Apache-2.0
#include "engine/run/turn_lock.h"

#include <gtest/gtest.h>

#include <thread>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::TurnLock;

TEST(TurnLock, IsHadByWhoWaitsForItOnceItIsGivenBack) {
  TurnLock lock;
  TurnLock::Held held = lock.queue_up();
  bool is_mine = false;
  std::thread other([&] { is_mine = lock.try_lock_for(60s).owns_lock(); });
  while (!lock.is_wanted()) std::this_thread::yield();
  held.unlock();
  other.join();
  EXPECT_TRUE(is_mine);
  EXPECT_FALSE(lock.is_wanted());
}

TEST(TurnLock, IsNotWaitedForLongerThanAsked) {
  TurnLock lock;
  const TurnLock::Held held = lock.queue_up();
  bool is_mine = true;
  std::thread([&] { is_mine = lock.try_lock_for(1ms).owns_lock(); }).join();
  EXPECT_FALSE(is_mine);
  EXPECT_FALSE(lock.is_wanted());
}

TEST(TurnLock, IsNotWaitedForByWhoHasIt) {
  TurnLock lock;
  const TurnLock::Held held = lock.queue_up();
  EXPECT_FALSE(lock.try_lock_for(Duration::max() / 2).owns_lock());
}

}  // namespace
}  // namespace uroce::test
