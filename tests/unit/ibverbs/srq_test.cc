// SPDX-License-Identifier: Apache-2.0
// Shared receive queues through the verbs.

#include <future>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::test {
namespace {

using namespace std::chrono_literals;

/// Two QPs of B on one SRQ, each with a peer at A.
class SharedReceives : public testing::Test {
 protected:
  SharedReceives() {
    init.srq_context = this;
    init.attr = {16, 2, 0};
    srq = impl::ibv_create_srq(b.pd, &init);
    EXPECT_NE(srq, nullptr) << last_error();
    for (std::size_t i = 0; i < 2; ++i) {
      qa[i] = a.make_qp();
      struct ibv_qp_init_attr attr {};
      attr.send_cq = b.send_cq;
      attr.recv_cq = b.recv_cq;
      attr.qp_type = IBV_QPT_RC;
      attr.srq = srq;
      attr.cap = {16, 99999, 1, 99999, 0};  // With an SRQ, max_recv_* is ignored.
      qb[i].reset(v().ibv_create_qp(b.pd, &attr));
      EXPECT_NE(qb[i], nullptr) << last_error();
      EXPECT_EQ(attr.cap.max_recv_wr, 0u);
      bring_to(qa[i].get(), IBV_QPS_RTS, b.gid(), qb[i]->qp_num);
      bring_to(qb[i].get(), IBV_QPS_RTS, a.gid(), qa[i]->qp_num);
    }
  }
  ~SharedReceives() override {
    for (QpPtr& qp : qb) qp.reset();
    if (srq != nullptr) {
      EXPECT_EQ(impl::ibv_destroy_srq(srq), 0);
    }
  }

  int post_srq(std::uint64_t wr_id, std::size_t offset = 0, std::uint32_t length = 64) {
    struct ibv_sge sge = b.sge(offset, length);
    struct ibv_recv_wr wr {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    struct ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  }
  void send(std::size_t i, std::uint64_t wr_id) {
    struct ibv_sge sge = a.sge(0, 8);
    ASSERT_EQ(post(qa[i].get(), send_wr(wr_id, IBV_WR_SEND, &sge)), 0);
    ASSERT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
  }
  int arm(std::uint32_t limit) {
    struct ibv_srq_attr attr {};
    attr.srq_limit = limit;
    return impl::ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
  }
  struct ibv_srq_attr query() {
    struct ibv_srq_attr attr {};
    EXPECT_EQ(impl::ibv_query_srq(srq, &attr), 0);
    return attr;
  }

  Node a{0}, b{1};
  struct ibv_srq_init_attr init {};
  struct ibv_srq* srq = nullptr;
  QpPtr qa[2], qb[2];
};

TEST_F(SharedReceives, WhoeverNeedsOneTakesIt) {
  a.memory[0] = 0x5A;
  for (std::uint64_t id : {10u, 11u, 12u}) ASSERT_EQ(post_srq(id, 64 * id), 0);
  send(1, 1);
  send(0, 2);
  send(1, 3);
  const std::size_t order[] = {1, 0, 1};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const struct ibv_wc wc = wait_completion(b.recv_cq);
    EXPECT_EQ(wc.wr_id, 10 + i);
    EXPECT_EQ(wc.qp_num, qb[order[i]]->qp_num);
    EXPECT_EQ(wc.byte_len, 8u);
    b.sync();
    EXPECT_EQ(b.memory[64 * (10 + i)], 0x5A);
  }
}

TEST_F(SharedReceives, QpsKnowTheirSrq) {
  EXPECT_EQ(qb[0]->srq, srq);
  EXPECT_EQ(srq->srq_context, this);
  EXPECT_EQ(srq->pd, b.pd);
  EXPECT_EQ(srq->context, b.context.get());
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr asked {};
  ASSERT_EQ(v().ibv_query_qp(qb[0].get(), &attr, IBV_QP_STATE, &asked), 0);
  EXPECT_EQ(asked.srq, srq);
  EXPECT_EQ(asked.cap.max_recv_wr, 0u);
}

TEST_F(SharedReceives, TheQpItselfTakesNoReceives) { EXPECT_EQ(post_recv(qb[0].get(), 1, b.sge(0, 8)), EINVAL); }

TEST_F(SharedReceives, LimitEvent) {
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(post_srq(id), 0);
  ASSERT_EQ(arm(3), 0);
  EXPECT_EQ(query().srq_limit, 3u);
  send(0, 1);
  EXPECT_FALSE(readable(b.context->async_fd, 0));
  send(0, 2);
  ASSERT_TRUE(readable(b.context->async_fd, kPatienceMs));
  EXPECT_EQ(query().srq_limit, 0u) << "disarmed";
  struct ibv_async_event event {};
  ASSERT_EQ(v().ibv_get_async_event(b.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  // An SRQ whose event is in the user's hands stays until that is acknowledged.
  for (QpPtr& qp : qb) qp.reset();
  std::future<int> destroyed = std::async(std::launch::async, impl::ibv_destroy_srq, srq);
  EXPECT_EQ(destroyed.wait_for(50ms), std::future_status::timeout);
  v().ibv_ack_async_event(&event);
  EXPECT_EQ(destroyed.get(), 0);
  srq = nullptr;
}

TEST_F(SharedReceives, AnEventNobodyFetchedGoesWithIt) {
  ASSERT_EQ(post_srq(1), 0);
  ASSERT_EQ(arm(1), 0);
  send(0, 1);
  ASSERT_TRUE(readable(b.context->async_fd, kPatienceMs));
  for (QpPtr& qp : qb) qp.reset();
  EXPECT_EQ(impl::ibv_destroy_srq(srq), 0);
  srq = nullptr;
  EXPECT_FALSE(readable(b.context->async_fd, 0));
}

TEST_F(SharedReceives, LastWqeReached) {
  ASSERT_EQ(post_srq(7), 0);
  ASSERT_EQ(set_state(qb[1].get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(next_async_event(b.context.get()), IBV_EVENT_QP_LAST_WQE_REACHED);
  expect_no_completion(b.recv_cq);
  send(0, 1);  // The receive was left to the other QP.
  EXPECT_EQ(wait_completion(b.recv_cq).wr_id, 7u);
}

TEST_F(SharedReceives, InUse) {
  EXPECT_EQ(impl::ibv_destroy_srq(srq), EBUSY);
  qb[0].reset();
  EXPECT_EQ(impl::ibv_destroy_srq(srq), EBUSY);
}

TEST_F(SharedReceives, Modify) {
  struct ibv_srq_attr attr {};
  attr.max_wr = 32;
  attr.srq_limit = 20;
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL) << "more than the 16 there are";
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(query().max_wr, 32u);
  EXPECT_EQ(query().srq_limit, 20u);
  EXPECT_EQ(query().max_sge, 2u);
  attr.max_wr = 10;
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL) << "below the armed limit";
  attr.max_wr = 0;
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
  attr.max_wr = 100'000'000;
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, 4), EINVAL) << "no such attribute";
  EXPECT_EQ(impl::ibv_modify_srq(srq, &attr, 0), 0);
  EXPECT_EQ(query().max_wr, 32u);
}

TEST_F(SharedReceives, AListStopsAtTheFirstError) {
  struct ibv_sge sges[3] = {b.sge(0, 8), b.sge(8, 8), b.sge(16, 8)};
  struct ibv_recv_wr wrs[3]{};
  for (std::size_t i = 0; i < 3; ++i) {
    wrs[i].wr_id = i;
    wrs[i].sg_list = sges;
    wrs[i].num_sge = static_cast<int>(i) + 1;  // The last one has more than max_sge.
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
  }
  struct ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[2]);
  wrs[0].num_sge = 1000;
  EXPECT_EQ(ibv_post_srq_recv(srq, wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[0]);
  send(0, 1);
  send(0, 1);
  EXPECT_EQ(wait_completion(b.recv_cq).wr_id, 0u);
  EXPECT_EQ(wait_completion(b.recv_cq).wr_id, 1u);
}

TEST_F(SharedReceives, Numbers) {
  std::uint32_t number = 0, other = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  struct ibv_srq_init_attr again {};
  again.attr = {1, 1, 0};
  struct ibv_srq* second = impl::ibv_create_srq(b.pd, &again);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_get_srq_num(second, &other), 0);
  EXPECT_NE(number, other);
  EXPECT_EQ(impl::ibv_destroy_srq(second), 0);
}

TEST_F(SharedReceives, ExtendedCreation) {
  const auto& slots = *verbs_get_ctx(b.context.get());
  struct ibv_srq_init_attr_ex ex {};
  ex.attr = {4, 1, 0};
  ex.pd = b.pd;
  ex.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  ex.srq_type = IBV_SRQT_BASIC;
  // NOLINTNEXTLINE: what a program reaches through ibv_create_srq_ex().
  struct ibv_srq* basic = slots.create_srq_ex(b.context.get(), &ex);
  ASSERT_NE(basic, nullptr) << last_error();
  EXPECT_EQ(impl::ibv_destroy_srq(basic), 0);
  for (const enum ibv_srq_type type : {IBV_SRQT_XRC, IBV_SRQT_TM}) {
    ex.srq_type = type;
    errno = 0;
    EXPECT_EQ(slots.create_srq_ex(b.context.get(), &ex), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  ex.comp_mask = 0;
  EXPECT_EQ(slots.create_srq_ex(b.context.get(), &ex), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SharedReceives, OfAnotherContext) {
  const ContextPtr other = open_device(1);
  struct ibv_pd* pd = v().ibv_alloc_pd(other.get());
  struct ibv_cq* cq = v().ibv_create_cq(other.get(), 1, nullptr, nullptr, 0);
  struct ibv_qp_init_attr attr {};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.srq = srq;
  EXPECT_EQ(v().ibv_create_qp(pd, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

// What a program leaves behind goes with its context.
TEST(SrqLeftBehind, ClosingTheDeviceDestroysIt) {
  const ContextPtr context = open_device(0);
  struct ibv_srq_init_attr init {};
  init.attr = {4, 1, 0};
  ASSERT_NE(impl::ibv_create_srq(v().ibv_alloc_pd(context.get()), &init), nullptr);
}

}  // namespace
}  // namespace uroce::ibv::test
