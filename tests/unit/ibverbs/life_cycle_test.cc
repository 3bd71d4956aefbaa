// SPDX-License-Identifier: Apache-2.0
// Which objects may be destroyed, and when.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::test {
namespace {

class LifeCycle : public testing::Test {
 protected:
  ContextPtr context = open_device(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(context.get());
};

TEST_F(LifeCycle, PdIsBusyWhileAMemoryRegionIsInIt) {
  std::vector<std::uint8_t> memory(64);
  struct ibv_mr* mr = v().ibv_reg_mr(pd, memory.data(), memory.size(), 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

TEST_F(LifeCycle, PdAndCqAreBusyWhileAQpUsesThem) {
  struct ibv_cq* cq = v().ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  struct ibv_qp* qp = v().ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(v().ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(v().ibv_destroy_qp(qp), 0);
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

TEST_F(LifeCycle, ChannelIsBusyWhileACqUsesIt) {
  struct ibv_comp_channel* channel = v().ibv_create_comp_channel(context.get());
  struct ibv_cq* one = v().ibv_create_cq(context.get(), 16, nullptr, channel, 0);
  struct ibv_cq* two = v().ibv_create_cq(context.get(), 16, nullptr, channel, 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(v().ibv_destroy_cq(one), 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(v().ibv_destroy_cq(two), 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
}

TEST_F(LifeCycle, QpNumbersAreDistinctAndNotReusedAtOnce) {
  struct ibv_cq* cq = v().ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  std::uint32_t last = 0;
  for (int i = 0; i < 10; ++i) {
    struct ibv_qp* qp = v().ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr);
    EXPECT_NE(qp->qp_num, last);
    last = qp->qp_num;
    EXPECT_EQ(v().ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
}

TEST(LifeCyclePair, CompletionsGoWithTheirQp) {
  Pair p;
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
  struct ibv_sge sge = p.a.sge(0, 64);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_SUCCESS);
  // A further one is in the CQ at the end: of the WRITE, as it succeeds or is flushed.
  struct ibv_send_wr wr = send_wr(2, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.remote_addr = p.b.address();
  wr.wr.rdma.rkey = p.b.mr->rkey;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).wr_id, 1u);
  ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_ERR), 0);
  p.qa.reset();
  struct ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(p.a.send_cq, 1, &wc), 0);
}

TEST(LifeCyclePair, DestroyAndResetFlushNothing) {
  Pair p;
  ASSERT_EQ(post_recv(p.qa.get(), 1, p.a.sge(0, 64)), 0);
  ASSERT_EQ(post_recv(p.qb.get(), 2, p.b.sge(0, 64)), 0);
  ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_RESET), 0);
  p.qb.reset();
  expect_no_completion(p.a.recv_cq);
  expect_no_completion(p.b.recv_cq);
}

TEST(LifeCyclePair, ResetQpCanBeConnectedAgain) {
  Pair p;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(2, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(set_state(p.qb.get(), IBV_QPS_RESET), 0);
    bring_to(p.qa.get(), IBV_QPS_RTS, p.b.gid(), p.qb->qp_num);
    bring_to(p.qb.get(), IBV_QPS_RTS, p.a.gid(), p.qa->qp_num);
  }
}

/// A poller sees its message before the ACK of it is on its way, and may end the QP there and then.
void expect_answered_before(void (*end)(QpPtr&)) {
  for (int round = 0; round < 5; ++round) {
    ConnectOptions impatient;
    impatient.timeout = 10;
    Pair p(impatient);
    ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
    struct ibv_wc wc {};
    for (int i = 0; i < 20; ++i) ASSERT_EQ(ibv_poll_cq(p.b.recv_cq, 1, &wc), 0);  // Now B's NIC trusts its poller.
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(2, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_SUCCESS);
    end(p.qb);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  }
}

TEST(LifeCyclePair, DestroyedQpAnswersWhatItHasReceived) {
  expect_answered_before([](QpPtr& qp) { qp.reset(); });
}

TEST(LifeCyclePair, ResetQpAnswersWhatItHasReceived) {
  expect_answered_before([](QpPtr& qp) { ASSERT_EQ(set_state(qp.get(), IBV_QPS_RESET), 0); });
}

// Garbage collectors (pyverbs) and destructors come in any order.
TEST(AfterTheContext, AllThatIsLeftCanBeDestroyed) {
  const auto ends = {false, true};
  for (const bool backwards : ends) {
    struct ibv_context* const context = open_device(0).release();
    struct ibv_pd* const pd = v().ibv_alloc_pd(context);
    struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(context);
    struct ibv_cq* const cq = v().ibv_create_cq(context, 16, nullptr, channel, 0);
    struct ibv_srq_init_attr srq_init {};
    srq_init.attr = {4, 1, 0};
    struct ibv_srq* const srq = impl::ibv_create_srq(pd, &srq_init);
    struct ibv_qp_init_attr init {};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    struct ibv_qp* const qp = v().ibv_create_qp(pd, &init);
    std::vector<std::uint8_t> memory(64);
    struct ibv_mr* const mr = v().ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mw* const mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_td_init_attr td_init {};
    struct ibv_td* const td = ibv_alloc_td(context, &td_init);
    struct ibv_parent_domain_init_attr parent_init {};
    parent_init.pd = pd;
    parent_init.td = td;
    struct ibv_pd* const parent = ibv_alloc_parent_domain(context, &parent_init);
    struct ibv_ah_attr ah_attr {};
    ah_attr.is_global = ah_attr.port_num = ah_attr.grh.sgid_index = 1;
    ASSERT_EQ(v().ibv_query_gid(context, 1, 1, &ah_attr.grh.dgid), 0);
    struct ibv_ah* const ah = impl::ibv_create_ah(pd, &ah_attr);
    ASSERT_TRUE(srq && qp && mr && mw && td && parent && ah) << last_error();
    EXPECT_EQ(v().ibv_close_device(context), 0);
    std::vector<std::function<int()>> steps{[=] { return impl::ibv_destroy_srq(srq); },
                                            [=] { return v().ibv_dealloc_pd(pd); },
                                            [=] { return ibv_dealloc_td(td); },
                                            [=] { return v().ibv_dealloc_pd(parent); },
                                            [=] { return v().ibv_destroy_comp_channel(channel); },
                                            [=] { return v().ibv_destroy_cq(cq); },
                                            [=] { return v().ibv_destroy_qp(qp); },
                                            [=] { return impl::ibv_destroy_ah(ah); },
                                            [=] { return ibv_dealloc_mw(mw); },
                                            [=] { return v().ibv_dereg_mr(mr); }};
    if (backwards) std::reverse(steps.begin(), steps.end());
    for (const auto& step : steps) EXPECT_EQ(step(), 0);
  }
}

/// A thread in ibv_get_cq_event(). It is asleep when this is made.
class ThreadInGetCqEvent {
 public:
  ThreadInGetCqEvent() {
    std::atomic<pid_t> id = 0;
    thread_ = std::thread([this, &id] {
      id = ::gettid();
      id.notify_one();
      struct ibv_cq* source = nullptr;
      void* cq_context = nullptr;
      result_ = v().ibv_get_cq_event(channel, &source, &cq_context) == -1 ? errno : 0;
    });
    id.wait(0);
    wait_until_asleep(id);
  }
  void interrupt() { ::pthread_kill(thread_.native_handle(), SIGUSR1); }
  /// What the call has said.
  int result() {
    ::alarm(kPatienceMs / 1000);  // It may sleep for ever.
    thread_.join();
    ::alarm(0);
    return result_;
  }

  struct ibv_context* const context = open_device(0).release();
  struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(context);
  struct ibv_cq* const cq = v().ibv_create_cq(context, 1, nullptr, channel, 0);
  const std::weak_ptr<Adapter> adapter = context_of(context).adapter;

 private:
  int result_ = 0;
  std::thread thread_;
};

TEST(AfterTheContext, AThreadThatSleepsForAnEventIsWokenAndGivesUpTheNic) {
  const auto ends = {false, true};
  for (const bool leaves_channel : ends) {
    ThreadInGetCqEvent sleeper;
    EXPECT_EQ(v().ibv_destroy_cq(sleeper.cq), 0);
    if (!leaves_channel) {
      EXPECT_EQ(v().ibv_destroy_comp_channel(sleeper.channel), 0);
    }
    EXPECT_EQ(v().ibv_close_device(sleeper.context), 0);
    EXPECT_EQ(sleeper.result(), EIO);
    EXPECT_TRUE(sleeper.adapter.expired());
    if (leaves_channel) {
      EXPECT_EQ(v().ibv_destroy_comp_channel(sleeper.channel), 0);
    }
  }
}

TEST(AfterTheContext, AThreadThatIsSlowToWakeHasTheNicUntilThen) {
  static std::atomic<bool> is_held, may_go;
  is_held = may_go = false;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {
    is_held = true;
    is_held.notify_one();
    may_go.wait(false);
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  ThreadInGetCqEvent sleeper;
  sleeper.interrupt();
  is_held.wait(false);
  EXPECT_EQ(v().ibv_destroy_cq(sleeper.cq), 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(sleeper.channel), 0);
  EXPECT_EQ(v().ibv_close_device(sleeper.context), 0);
  EXPECT_FALSE(sleeper.adapter.expired());
  EXPECT_NE(open_device(0), nullptr) << "the address is its own";
  may_go = true;
  may_go.notify_one();
  EXPECT_EQ(sleeper.result(), EINTR);
  EXPECT_TRUE(sleeper.adapter.expired());
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace uroce::ibv::test
