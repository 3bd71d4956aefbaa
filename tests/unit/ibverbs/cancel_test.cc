// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled. No verb is a cancellation point but those that wait for events: the others do all of
// their work, and the thread ends later.
#include <pthread.h>

#include "proto/base/no_cancellation.h"
#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

/// Has a thread do `work` that was cancelled before. Returns whether it did all of that and ended then.
template <class Work>
bool is_whole(Work work) {
  struct Task {
    Work& work;
    bool is_done = false;
  } task{work};
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    auto& mine = *static_cast<Task*>(argument);
    ::pthread_cancel(::pthread_self());
    mine.work();
    mine.is_done = true;
    ::pthread_testcancel();
    return nullptr;
  };
  EXPECT_EQ(::pthread_create(&thread, nullptr, run, &task), 0);
  void* result = nullptr;
  EXPECT_EQ(::pthread_join(thread, &result), 0);
  return task.is_done && result == PTHREAD_CANCELED;
}

TEST(Cancelled, AThreadThatMayEndAnywhereEndsBehindTheWork) {
  struct Task {
    bool is_done = false, goes_on = false;
  } task;
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    auto& mine = *static_cast<Task*>(argument);
    {
      const NoCancellation whole;
      ::pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);  // NOLINT(*-asynchronous,cert-pos47-c)
      ::pthread_cancel(::pthread_self());
      mine.is_done = true;
    }
    mine.goes_on = true;
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, nullptr, run, &task), 0);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
  EXPECT_TRUE(task.is_done);
  EXPECT_FALSE(task.goes_on);
}

TEST(Cancelled, VerbsDoAllOfTheirWork) {
  Pair p;
  EXPECT_TRUE(is_whole([&] {
    struct ibv_mr* const mr = v().ibv_reg_mr(p.a.pd, p.a.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(v().ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, p.a.memory.data(), 128, 0), 0);
    EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  }));
  EXPECT_TRUE(is_whole([&] { const QpPtr qp = p.a.make_qp(); }));
  EXPECT_TRUE(is_whole([&] {
    struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(p.a.context.get());
    EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
  }));
}

TEST(Cancelled, ANicIsOpenedAndClosed) {
  EXPECT_TRUE(is_whole([] { const ContextPtr context = open_device(0); }));
}

}  // namespace
}  // namespace uroce::ibv::test
