// SPDX-License-Identifier: Apache-2.0
// A child of fork() that ends as programs do, through its destructors: what it shares with its parent stays the
// parent's.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/os/os_clock.h"
#include "engine/os/process_mutex.h"
#include "proto/base/made_once.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/hooks/faults_wanted.h"
#include "verbs/ibverbs/objects/objects.h"

#ifdef __SANITIZE_ADDRESS__
namespace {
bool is_child = false;
}
/// LeakSanitizer asks before it looks for leaks, for which it takes the allocator's locks. A thread of the parent may
/// have them for ever. (tests/programs/clients/forks.c has children that look.)
extern "C" int __lsan_is_turned_off() { return is_child ? 1 : 0; }
#endif

namespace uroce::ibv::test {
namespace {

constexpr NodeOptions kForkNode{.with_channel = true};
/// For the destructors of a test that has failed.
constexpr unsigned int kEndSeconds = 5;

// Hooks of fork() that do nothing.
constexpr auto kNever = [] { return false; };
constexpr auto kNothing = [] {};

/// A child runs `body`, and has so many seconds for it. Returns its status.
template <class Body>
int status_of_child(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
#ifdef __SANITIZE_ADDRESS__
    is_child = true;
#endif
    alarm(kPatienceMs / 1000);
    body();
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class Fork : public testing::Test {
 protected:
  /// A lock that a fork leaves locked would keep the test, or its destructors, for ever: the process ends then.
  void SetUp() override { alarm(2 * kPatienceMs / 1000); }
  void TearDown() override {
    if (HasFailure()) alarm(kEndSeconds);
    p.reset();
    alarm(0);
  }
  /// B gets a completion, of which its channel tells, and then an asynchronous event.
  void raise_events() {
    ASSERT_EQ(ibv_req_notify_cq(p->b.recv_cq, 0), 0);
    exchange();
    struct ibv_sge sge = p->a.sge(0, 8);
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {p->b.address(), p->b.mr->rkey + 1};
    ASSERT_EQ(post(p->qa.get(), wr), 0);
    ASSERT_EQ(wait_completion(p->a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    ASSERT_TRUE(readable(p->b.channel->fd, kPatienceMs) && readable(p->b.context->async_fd, kPatienceMs));
  }
  void exchange() {
    ASSERT_EQ(post_recv(p->qb.get(), 1, p->b.sge(0, 5000)), 0);
    struct ibv_sge sge = p->a.sge(0, 5000);
    ASSERT_EQ(post(p->qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p->a.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_completion(p->b.recv_cq).status, IBV_WC_SUCCESS);
  }
  void take_events() {
    ASSERT_TRUE(readable(p->b.channel->fd, 0));
    struct ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(v().ibv_get_cq_event(p->b.channel, &cq, &cq_context), 0);
    v().ibv_ack_cq_events(cq, 1);
    ASSERT_TRUE(readable(p->b.context->async_fd, 0));
    EXPECT_EQ(next_async_event(p->b.context.get()), IBV_EVENT_QP_ACCESS_ERR);
  }

  std::unique_ptr<Pair> p = std::make_unique<Pair>(ConnectOptions{}, kForkNode, kForkNode);
};

TEST_F(Fork, AChildThatDestroysEverythingTakesNoEventOfItsParents) {
  raise_events();
  EXPECT_EQ(status_of_child([&] { p.reset(); }), 0);
  take_events();
}

TEST_F(Fork, AChildGetsNoEventOfItsParents) {
  raise_events();
  EXPECT_EQ(status_of_child([&] {
              struct ibv_cq* cq = nullptr;
              void* cq_context = nullptr;
              EXPECT_EQ(v().ibv_get_cq_event(p->b.channel, &cq, &cq_context), -1);
              EXPECT_EQ(errno, EIO);
              struct ibv_async_event event {};
              EXPECT_EQ(v().ibv_get_async_event(p->b.context.get(), &event), -1);
              EXPECT_EQ(errno, EIO);
            }),
            0);
  take_events();
}

TEST_F(Fork, AChildDoesNotWaitForWhatItsParentWillAcknowledge) {
  raise_events();
  struct ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(v().ibv_get_cq_event(p->b.channel, &cq, &cq_context), 0);
  struct ibv_async_event event {};
  ASSERT_EQ(v().ibv_get_async_event(p->b.context.get(), &event), 0);
  EXPECT_EQ(status_of_child([&] { p.reset(); }), 0);
  v().ibv_ack_cq_events(cq, 1);
  v().ibv_ack_async_event(&event);
}

TEST_F(Fork, AChildDoesNotWaitForAThreadThatItDoesNotHave) {
  ListsMutex& lists = context_of(p->a.context.get()).objects_mutex;
  std::promise<void> inside;
  std::thread other([&] {
    const std::scoped_lock lock(lists);
    inside.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Until the main thread is inside of fork().
  });
  inside.get_future().wait();
  EXPECT_EQ(status_of_child([&] { p.reset(); }), 0);
  other.join();
}

TEST_F(Fork, AChildDoesNotWaitForWhatTheProcessHasOneOf) {
  std::promise<void> inside;
  std::thread other([&] {
    const std::scoped_lock lock(engine::process_mutex);
    inside.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Until the main thread is inside of fork().
  });
  inside.get_future().wait();
  EXPECT_EQ(status_of_child([] { faults_wanted(); }), 0);
  other.join();
}

// Since glibc 2.36 the handlers of several forks run at the same time. One that takes longer than another would wait
// for its locks: both end with all that they hold given back, and the NICs of both children are abandoned in order.
TEST_F(Fork, ThreadsMayForkAtTheSameTime) {
  static std::atomic<int> forks_begun;
  forks_begun = 0;
  const auto slow = [] {
    if (++forks_begun == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  };
  set_fork_hooks({kNever, kNothing, slow, kNothing, kNothing});
  const auto destroys_all = [&] { p.reset(); };
  std::thread first([&] { EXPECT_EQ(status_of_child(destroys_all), 0); });
  while (forks_begun == 0) std::this_thread::yield();
  EXPECT_EQ(status_of_child(destroys_all), 0);
  first.join();
  set_fork_hooks({kNever, kNothing, kNothing, kNothing, kNothing});
  EXPECT_EQ(forks_begun, 2);
  exchange();
  const std::unique_lock table(device_table().mutex, std::try_to_lock);
  EXPECT_TRUE(table.owns_lock());
  const std::unique_lock process(engine::process_mutex, std::try_to_lock);
  EXPECT_TRUE(process.owns_lock());
}

TEST(MadeOnce, AChildMakesWhatAThreadOfItsParentWasMaking) {
  static constinit std::atomic<int*> place = nullptr;
  std::promise<void> inside, go_on;
  std::thread other([&] {
    made_once(place, [&] {
      inside.set_value();
      go_on.get_future().wait();
      return std::make_unique<int>(1);
    });
  });
  inside.get_future().wait();
  const auto make_another = [] { return std::make_unique<int>(2); };
  EXPECT_EQ(status_of_child([&] { EXPECT_EQ(made_once(place, make_another), 2); }), 0);
  EXPECT_EQ(made_once(place, make_another), 2);
  go_on.set_value();
  other.join();
  EXPECT_EQ(*place, 2) << "the first that was ready";
}

/// How long the fastest of some forks takes. Those that wait for a lock all take long.
Duration shortest_fork() {
  Duration shortest = Duration::max();
  for (int i = 0; i < 3; ++i) {
    const Instant begin = engine::os_now();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    shortest = std::min(shortest, engine::os_now() - begin);
    waitpid(child, nullptr, 0);
  }
  return shortest;
}

// Where this thread has the lock, what forks is a signal handler that has interrupted who has it.
TEST_F(Fork, AHandlerThatForksDoesNotWaitForItsThread) {
  constexpr Duration kNoWait = std::chrono::milliseconds(90);
  {
    const std::scoped_lock lock(context_of(p->a.context.get()).objects_mutex);
    EXPECT_LT(shortest_fork(), kNoWait) << "the lists of a context";
    EXPECT_EQ(status_of_child([] {}), 0);
  }
  {
    const std::scoped_lock lock(device_table().mutex);
    EXPECT_LT(shortest_fork(), kNoWait) << "the list of devices";
  }
  {
    const std::scoped_lock lock(engine::process_mutex);
    EXPECT_LT(shortest_fork(), kNoWait) << "what the process has one of";
  }
  static_cast<Device*>(p->a.context->device)->while_open([&](Adapter& /*adapter*/) {
    EXPECT_LT(shortest_fork(), kNoWait) << "a device";
  });
  exchange();
}

// Another thread forks meanwhile, with all locks, and is not there in the child.
TEST_F(Fork, AChildOfAForkInsideAVerbMayFork) {
  static std::atomic<bool> other_forks, may_go_on;
  other_forks = may_go_on = false;
  const auto wait = [] {
    other_forks = true;
    while (!may_go_on) std::this_thread::yield();
  };
  set_fork_hooks({kNever, wait, kNothing, kNothing, kNothing});
  std::thread other([] { EXPECT_EQ(status_of_child([] {}), 0); });
  while (!other_forks) std::this_thread::yield();
  pid_t child = -1;
  {
    const std::scoped_lock inside(context_of(p->a.context.get()).objects_mutex);
    child = fork();
  }
  if (child == 0) {
    alarm(kEndSeconds);
    const pid_t childs_child = fork();
    if (childs_child == 0) _exit(0);
    int status = -1;
    waitpid(childs_child, &status, 0);
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  may_go_on = true;
  other.join();
  set_fork_hooks({kNever, kNothing, kNothing, kNothing, kNothing});
  exchange();
}

TEST_F(Fork, TheParentGoesOnWhenChildrenHaveDestroyedEverything) {
  exchange();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(status_of_child([&] { p.reset(); }), 0);
    exchange();
  }
}

TEST_F(Fork, AChildDoesNotWaitForWhoPollsAnExtendedCq) {
  struct ibv_cq_init_attr_ex cq_init {};
  cq_init.cqe = 16;
  cq_init.wc_flags = IBV_WC_STANDARD_FLAGS;
  struct ibv_cq_ex* const cq = ibv_create_cq_ex(p->a.context.get(), &cq_init);
  ASSERT_NE(cq, nullptr) << last_error();
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  QpPtr qp(v().ibv_create_qp(p->a.pd, &init));
  ASSERT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
  ASSERT_EQ(post_recv(qp.get(), 1, p->a.sge(0, 8)), 0);
  struct ibv_poll_cq_attr attr {};
  ASSERT_EQ(ibv_start_poll(cq, &attr), 0);
  EXPECT_EQ(status_of_child([&] { EXPECT_EQ(ibv_start_poll(cq, &attr), EIO); }), 0);
  ibv_end_poll(cq);
  qp.reset();
  EXPECT_EQ(v().ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(Fork, AChildDoesNotWaitForWhoBuildsWrs) {
  struct ibv_qp_init_attr_ex init {};
  init.send_cq = init.recv_cq = p->a.send_cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = p->a.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const QpPtr qp(verbs_get_ctx(p->a.context.get())->create_qp_ex(p->a.context.get(), &init));
  ASSERT_NE(qp, nullptr) << last_error();
  struct ibv_qp_ex* const builder = impl::ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  EXPECT_EQ(status_of_child([&] {
              ibv_wr_start(builder);
              ibv_wr_send(builder);
              EXPECT_EQ(ibv_wr_complete(builder), EIO);
            }),
            0);
  ibv_wr_abort(builder);
}

TEST_F(Fork, TheParentGoesOnWhenChildrenHaveUsedEveryVerbOfTheDataPath) {
  EXPECT_EQ(status_of_child([&] {
              struct ibv_wc wc {};
              struct ibv_sge sge = p->a.sge(0, 8);
              EXPECT_EQ(post(p->qa.get(), send_wr(1, IBV_WR_SEND, &sge)), EIO);
              EXPECT_EQ(post_recv(p->qb.get(), 1, sge), EIO);
              EXPECT_LT(ibv_poll_cq(p->a.send_cq, 1, &wc), 0);
              EXPECT_EQ(ibv_req_notify_cq(p->b.recv_cq, 0), EIO);
              EXPECT_EQ(set_state(p->qa.get(), IBV_QPS_ERR), EIO);
            }),
            0);
  exchange();
}

}  // namespace
}  // namespace uroce::ibv::test
