// SPDX-License-Identifier: Apache-2.0
// Signal handlers that interrupt a verb, in which their thread has the NIC's lock, or sleeps.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "engine/os/os_clock.h"
#include "engine/run/turn_lock.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::test {
namespace {

class Signals : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the sanitizer runs handlers later, outside of verbs";
#endif
    struct sigaction action {};
    action.sa_handler = [](int) {
      if (!engine::TurnMutex::is_inside() || is_done_) return;
      what_();
      is_done_ = true;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, nullptr);
  }
  /// Polls until a handler has interrupted a poll and done `what`.
  void do_inside_a_poll(std::function<void()> what) {
    what_ = std::move(what);
    is_done_ = false;
    const itimerval often{.it_interval = {0, 200}, .it_value = {0, 200}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    struct ibv_wc wc {};
    for (const Instant end = engine::os_now() + std::chrono::milliseconds(kPatienceMs);
         !is_done_ && engine::os_now() < end;) {
      ASSERT_EQ(ibv_poll_cq(p.a.send_cq, 1, &wc), 0);
    }
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_TRUE(is_done_);
  }
  void expect_that_it_works() {
    ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  }

  Pair p;
  static inline std::function<void()> what_;
  static inline volatile bool is_done_ = false;
};

TEST_F(Signals, VerbsOfAHandlerInsideAVerbAreRefused) {
  int destroy_error = 0, post_error = 0, open_errno = 0;
  do_inside_a_poll([&] {
    destroy_error = v().ibv_destroy_qp(p.qa.get());
    struct ibv_sge sge = p.a.sge(0, 64);
    post_error = post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge));
    open_errno = v().ibv_alloc_pd(p.a.context.get()) == nullptr ? errno : 0;
  });
  for (const int error : {destroy_error, post_error, open_errno}) EXPECT_EQ(error, EDEADLK);
  expect_that_it_works();
}

TEST_F(Signals, TheSameWhereTheVerbHasTheListsOfAContext) {
  const std::scoped_lock lock(context_of(p.a.context.get()).objects_mutex);
  EXPECT_EQ(v().ibv_alloc_pd(p.a.context.get()), nullptr);
  EXPECT_EQ(errno, EDEADLK);
}

TEST_F(Signals, WhoCleansUpInAHandlerInsideAVerbDoesNotWait) {
  bool has_lock = true;
  do_inside_a_poll(
      [&] { has_lock = bool(NicLock(*context_of(p.a.context.get()).adapter, NicLock::Purpose::kCleanUp)); });
  EXPECT_FALSE(has_lock);
  expect_that_it_works();
}

TEST_F(Signals, AHandlerInsideAVerbMayAskForThePort) {
  std::optional<PortView> port;
  do_inside_a_poll([&] { port = static_cast<Device*>(p.a.context->device)->port_view(); });
  EXPECT_TRUE(port && port->up);
  expect_that_it_works();
}

TEST_F(Signals, ItDoesNotWaitForAThreadThatAsksToo) {
  auto& device = *static_cast<Device*>(p.a.context->device);
  std::atomic<pid_t> id = 0;
  std::thread other;
  {
    const NicLock lock(*context_of(p.a.context.get()).adapter);
    other = std::thread([&] {
      id = ::gettid();
      id.notify_one();
      EXPECT_TRUE(device.port_view().up);
    });
    id.wait(0);
    wait_until_asleep(id);
    EXPECT_TRUE(device.port_view().up);
  }
  other.join();
}

TEST_F(Signals, AHandlerMayForkInsideAVerb) {
  int status = -1;
  do_inside_a_poll([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      struct ibv_wc wc {};
      ::_exit(ibv_poll_cq(p.a.send_cq, 1, &wc) < 0 ? 7 : 8);
    }
    ::waitpid(child, &status, 0);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7) << "verbs are refused in the child, as after any fork";
  expect_that_it_works();
}

// A handler with SA_RESTART does not end the sleep that it interrupts. What it brings about there does.
class SignalsInASleep : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the sanitizer runs handlers when the call that they interrupt has returned";
#endif
    struct sigaction action {};
    action.sa_handler = [](int) { brings_(); };
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
  }
  void TearDown() override { ::sigaction(SIGUSR1, &before_, nullptr); }
  bool is_async() const { return GetParam(); }
  void sleep_for_event() {
    if (is_async()) {
      struct ibv_async_event event {};
      EXPECT_EQ(v().ibv_get_async_event(node_.context.get(), &event), 0);
      v().ibv_ack_async_event(&event);
    } else {
      struct ibv_cq* cq = nullptr;
      void* of_cq = nullptr;
      EXPECT_EQ(v().ibv_get_cq_event(node_.channel, &cq, &of_cq), 0);
      v().ibv_ack_cq_events(cq, 1);
    }
  }
  void bring_event() {
    if (is_async()) {
      EXPECT_TRUE(context_of(node_.context.get()).adapter->break_qp({.value = qp_->qp_num}));
    } else {
      EXPECT_EQ(post_recv(qp_.get(), 1, node_.sge(0, 64)), 0);
    }
  }

  Node node_{0, {.with_channel = true}};
  QpPtr qp_ = node_.make_qp();
  static inline std::function<void()> brings_;

 private:
  struct sigaction before_ {};
};

TEST_P(SignalsInASleep, WhatAHandlerBringsEndsIt) {
  bring_to(qp_.get(), IBV_QPS_RTS, node_.gid(), qp_->qp_num);
  if (!is_async()) {
    ASSERT_EQ(set_state(qp_.get(), IBV_QPS_ERR), 0);
    ASSERT_EQ(ibv_req_notify_cq(node_.recv_cq, 0), 0);
  }
  brings_ = [this] { bring_event(); };
  std::atomic<pid_t> id = 0;
  std::promise<void> woken;
  std::thread sleeper([&] {
    id = ::gettid();
    id.notify_one();
    sleep_for_event();
    woken.set_value();
  });
  id.wait(0);
  wait_until_asleep(id);
  ::pthread_kill(sleeper.native_handle(), SIGUSR1);
  const bool is_awake = woken.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(is_awake);
  if (!is_awake) std::_Exit(1);  // It sleeps for ever.
  sleeper.join();
}
INSTANTIATE_TEST_SUITE_P(Events, SignalsInASleep, testing::Bool(),
                         [](const auto& param) { return param.param ? "Asynchronous" : "OfACq"; });

}  // namespace
}  // namespace uroce::ibv::test
