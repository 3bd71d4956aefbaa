// SPDX-License-Identifier: Apache-2.0
// The descriptor says what the queue holds; the events that a thread brings itself do not take the way through it.
#include "verbs/ibverbs/objects/event_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace uroce::ibv::test {
namespace {

class EventQueueTest : public testing::Test {
 protected:
  /// The counter of the descriptor: how often it can be read.
  int tokens() {
    int count = 0;
    while (is_readable()) {
      std::uint64_t one = 0;
      EXPECT_EQ(::read(descriptor, &one, sizeof one), static_cast<ssize_t>(sizeof one));
      ++count;
    }
    const std::uint64_t back = static_cast<std::uint64_t>(count);
    EXPECT_TRUE(count == 0 || ::write(descriptor, &back, sizeof back) == sizeof back);
    return count;
  }
  bool is_readable() {
    pollfd look{descriptor, POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }
  /// Takes one; a wait pushes `items` and returns `error`. Returns 0 or an errno value.
  int take(const std::vector<int>& items = {}, int error = 0) {
    return queue.take(
        taken, [](int) {},
        [&](int, const auto&) {
          for (const int item : items) queue.push(item);
          EXPECT_FALSE(!items.empty() && is_readable()) << "nobody else need know yet";
          return error;
        });
  }

  int descriptor = -1;
  EventQueue<int> queue{descriptor};
  int taken = 0;
};

TEST_F(EventQueueTest, EachItemHasAToken) {
  for (const int item : {1, 2, 3}) queue.push(item);
  EXPECT_EQ(tokens(), 3);
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(tokens(), 2);
  queue.remove_if([](int item) { return item == 2; });
  EXPECT_EQ(tokens(), 1);
}

TEST_F(EventQueueTest, WhatTheWaitingThreadBringsItselfNeedsNone) {
  EXPECT_EQ(take({1}), 0);
  EXPECT_EQ(taken, 1);
  EXPECT_FALSE(is_readable());
}

TEST_F(EventQueueTest, WhatItBringsAndLeavesGetsOne) {
  EXPECT_EQ(take({1, 2, 3}), 0);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(tokens(), 2);
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(tokens(), 1);
}

TEST_F(EventQueueTest, WhatItBringsGetsOneWhenItIsInterrupted) {
  EXPECT_EQ(take({1, 2}, EINTR), EINTR);
  EXPECT_EQ(tokens(), 2);
}

TEST_F(EventQueueTest, WhatItBringsGetsOneWhenItIsCancelled) {
  std::thread([this] {
    queue.take(
        taken, [](int) {},
        [this](int, const auto&) {
          queue.push(1);
          ::pthread_cancel(::pthread_self());
          ::pthread_testcancel();
          return 0;
        });
  }).join();
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(tokens(), 1);
}

TEST_F(EventQueueTest, AThreadThatIsCancelledTakesNothing) {
  queue.push(1);
  std::thread([&] {
    ::pthread_cancel(::pthread_self());
    queue.push(2);
    take();
    ADD_FAILURE() << "it was to be cancelled, as in read()";
  }).join();
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(tokens(), 2);
}

TEST_F(EventQueueTest, WhatIsThereIsTakenWholeByAThreadThatIsCancelledMeanwhile) {
  queue.push(1);
  queue.push(2);
  int result = -1;
  std::thread([&] {
    result = queue.take(
        taken, [](int) { ::pthread_cancel(::pthread_self()); }, [](int, const auto&) { return 0; });
    ::pthread_testcancel();
    ADD_FAILURE() << "it was to be cancelled";
  }).join();
  EXPECT_EQ(result, 0);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(tokens(), 1);
}

TEST_F(EventQueueTest, ADescriptorThatTheProgramHasClosedHurtsNobody) {
  queue.push(1);
  ASSERT_EQ(::close(descriptor), 0);
  queue.push(2);
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(take(), EBADF);
}

TEST_F(EventQueueTest, ASignalEndsAWaitUnlessItsHandlerRestarts) {
  for (const int flags : {0, SA_RESTART}) {
    struct sigaction action {
    }, before{};
    action.sa_flags = flags;
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<int> result = -1;
    std::thread waiter([&] { result = queue.take(taken, [](int) {}); });
    // As often as it takes to meet it asleep.
    for (int i = 0; i < 200 && result < 0; ++i) {
      ::pthread_kill(waiter.native_handle(), SIGUSR1);
      ::usleep(flags == 0 ? 1000 : 100);
    }
    EXPECT_EQ(result, flags == 0 ? EINTR : -1);
    if (flags != 0) queue.push(7);
    waiter.join();
    EXPECT_EQ(result, flags == 0 ? EINTR : 0);
    EXPECT_EQ(taken, flags == 0 ? 0 : 7);
    ::sigaction(SIGUSR1, &before, nullptr);
  }
}

TEST_F(EventQueueTest, WhatItBringsMayBeRemovedBefore) {
  queue.push(1);
  EXPECT_EQ(take(), 0);
  int waits = 0;
  EXPECT_EQ(queue.take(
                taken, [](int) {},
                [&](int, const auto&) {
                  queue.push(2 + waits);
                  if (++waits == 1) queue.remove_if([](int item) { return item == 2; });
                  return 0;
                }),
            0);
  EXPECT_EQ(taken, 3);
  EXPECT_FALSE(is_readable());
}

TEST_F(EventQueueTest, OtherQueuesGetTheirsAtOnce) {
  int others = -1;
  EventQueue<int> other(others);
  EXPECT_EQ(queue.take(
                taken, [](int) {},
                [&](int, const auto&) {
                  other.push(1);
                  pollfd look{others, POLLIN, 0};
                  EXPECT_EQ(::poll(&look, 1, 0), 1);
                  queue.push(2);
                  return 0;
                }),
            0);
}

// As a thread of a program that waits for events, while another one closes the device.
TEST(EventQueue, MayEndWhileAThreadSleepsInIt) {
  for (const int error : {0, EINTR}) {
    auto of_user = std::make_unique<int>(-1);
    auto queue = std::make_unique<EventQueue<int>>(*of_user);
    int taken = 0;
    const int result = queue->take(
        taken, [](int) {},
        [&](int, const auto& holds_any) {
          queue.reset();
          of_user.reset();
          EXPECT_FALSE(holds_any());
          return error;
        });
    EXPECT_EQ(result, error == 0 ? EIO : EINTR);
  }
}

TEST(EventQueue, ClosesItsDescriptorBehindWhomItHasWoken) {
  int of_user = -1;
  auto queue = std::make_unique<EventQueue<int>>(of_user);
  const int descriptor = of_user;
  int taken = 0;
  const int result = queue->take(
      taken, [](int) {},
      [&](int, const auto&) {
        queue->end();
        queue.reset();
        pollfd look{descriptor, POLLIN, 0};
        EXPECT_EQ(::poll(&look, 1, 0), 1);
        EXPECT_EQ(look.revents, POLLIN) << "another file may have the number that it sleeps on";
        return 0;
      });
  EXPECT_EQ(result, EIO);
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
}

TEST_F(EventQueueTest, AnEndWakesWhoSleepsAndLeavesTheDescriptor) {
  EXPECT_EQ(queue.take(
                taken, [](int) {},
                [&](int, const auto&) {
                  queue.end();
                  EXPECT_TRUE(is_readable()) << "it sleeps on";
                  return 0;
                }),
            EIO);
  EXPECT_NE(::fcntl(descriptor, F_GETFD), -1);
  EXPECT_EQ(take(), EIO);
}

}  // namespace
}  // namespace uroce::ibv::test
