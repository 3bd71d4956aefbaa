// SPDX-License-Identifier: Apache-2.0
// Completion channels and asynchronous events.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>
#include <utility>

#include "engine/os/os_clock.h"
#include "engine/os/processors.h"
#include "engine/run/tunables.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::test {
namespace {

using namespace std::chrono_literals;

constexpr NodeOptions kWithChannel{.with_channel = true};

class CompletionEvents : public testing::Test {
 protected:
  /// Sends `wr_id` from A to B; the completion at B may raise an event.
  void send(std::uint64_t wr_id, unsigned int flags = IBV_SEND_SIGNALED) {
    ASSERT_EQ(post_recv(p.qb.get(), wr_id, p.b.sge(0, 64)), 0);
    struct ibv_sge sge = p.a.sge(0, 64);
    ASSERT_EQ(post(p.qa.get(), send_wr(wr_id, IBV_WR_SEND, &sge, flags)), 0);
    // Once A has its acknowledgement, B has had its completion.
    ASSERT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  }
  bool has_event() { return readable(p.b.channel->fd, 0); }
  void get_event(unsigned int acks = 1) {
    struct ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(v().ibv_get_cq_event(p.b.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq, p.b.recv_cq);
    EXPECT_EQ(cq_context, &p.b);
    v().ibv_ack_cq_events(cq, acks);
  }

  Pair p{{}, {}, kWithChannel};
};

TEST_F(CompletionEvents, NoneWithoutArming) {
  send(1);
  EXPECT_FALSE(has_event());
}

TEST_F(CompletionEvents, OnePerArming) {
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  send(1);
  send(2);
  EXPECT_TRUE(has_event());
  get_event();
  EXPECT_FALSE(has_event());
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  EXPECT_FALSE(has_event()) << "what is there already does not count";
  send(3);
  get_event();
}

TEST_F(CompletionEvents, SolicitedOnly) {
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 1), 0);
  send(1);
  EXPECT_FALSE(has_event());
  send(2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  get_event();
  EXPECT_FALSE(has_event());
}

TEST_F(CompletionEvents, FailureCountsAsSolicited) {
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 1), 0);
  ASSERT_EQ(set_state(p.qb.get(), IBV_QPS_ERR), 0);
  get_event();
  EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CompletionEvents, NonBlockingChannelSaysAgain) {
  set_nonblocking(p.b.channel->fd);
  struct ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  errno = 0;
  EXPECT_EQ(v().ibv_get_cq_event(p.b.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  send(1);
  get_event();
}

TEST_F(CompletionEvents, TheDescriptorMayMoveAndAnotherFileHaveItsNumber) {
  const int moved = ::fcntl(p.b.channel->fd, F_DUPFD_CLOEXEC, 0);
  std::array<int, 2> stranger{};
  ASSERT_EQ(::pipe2(stranger.data(), O_NONBLOCK), 0);
  ASSERT_EQ(::dup2(stranger[1], p.b.channel->fd), p.b.channel->fd);
  const int before = std::exchange(p.b.channel->fd, moved);

  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
    send(1);
    get_event();
  }
  char byte = 0;
  EXPECT_EQ(::read(stranger[0], &byte, 1), -1) << "an event was written into the stranger";
  for (const int fd : {stranger[0], stranger[1], before}) ::close(fd);
}

TEST_F(CompletionEvents, WhoArmsBehindAnEmptyChannelIsToldOfWhatItHasNotPolled) {
  set_nonblocking(p.b.channel->fd);
  const auto channel_is_empty = [&] {
    struct ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    return v().ibv_get_cq_event(p.b.channel, &cq, &cq_context) == -1 && errno == EAGAIN;
  };
  expect_no_completion(p.b.recv_cq);
  send(1);
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  EXPECT_FALSE(has_event()) << "it has not looked for events";
  send(2);
  get_event();
  ASSERT_EQ(wait_completion(p.b.recv_cq).wr_id, 1u);
  ASSERT_EQ(wait_completion(p.b.recv_cq).wr_id, 2u);
  expect_no_completion(p.b.recv_cq);

  // As UCX does: polls until nothing is there, looks for events, arms, and sleeps.
  ASSERT_TRUE(channel_is_empty());
  send(3);
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  get_event();
  EXPECT_TRUE(channel_is_empty());
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  EXPECT_FALSE(has_event()) << "it was told of that";
  send(4);
  get_event();
}

TEST_F(CompletionEvents, APollBehindArmingWaitsAwakeWhereEventsComeSoon) {
  if (engine::has_one_processor()) GTEST_SKIP() << "On a single processor nobody waits awake.";
  set_nonblocking(p.b.channel->fd);
  Adapter& adapter = *context_of(p.b.context.get()).adapter;
  const auto raise_event = [&adapter](struct ibv_cq* cq) {
    const NicLock lock(adapter);
    notify(*own(cq));
  };
  // An event that goes with its CQ is none that waits to be fetched.
  struct ibv_cq* const gone = v().ibv_create_cq(p.b.context.get(), 1, nullptr, p.b.channel, 0);
  raise_event(gone);
  ASSERT_EQ(v().ibv_destroy_cq(gone), 0);

  // The processor time of one poll tells. It waits where nobody else wants the processor: on a busy machine seldom.
  const auto poll = [this] {
    EXPECT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
    const auto before = engine::cpu_time(engine::cpu_clock_of_this_thread());
    expect_no_completion(p.b.recv_cq);
    return engine::cpu_time(engine::cpu_clock_of_this_thread()) - before;
  };
  Duration longest{};
  const Instant deadline = engine::os_now() + std::chrono::milliseconds(kPatienceMs);
  while (longest < engine::kLinger / 2 && engine::os_now() < deadline) {
    for (int j = 0; j < engine::kLoyaltyMax; ++j) {
      adapter.before_sleep();
      raise_event(p.b.recv_cq);
      get_event();
    }
    longest = std::max(longest, poll());
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(longest, engine::kLinger / 2);
}

TEST_F(CompletionEvents, WhatIsNotFetchedGoesWithItsContext) {
  Adapter& adapter = *context_of(p.b.context.get()).adapter;
  struct ibv_context* const closed = open_device(1).release();
  struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(closed);
  struct ibv_cq* const cq = v().ibv_create_cq(closed, 1, nullptr, channel, 0);
  {
    const NicLock lock(adapter);
    notify(*own(cq));
  }
  EXPECT_TRUE(adapter.has_cq_event());
  ASSERT_EQ(v().ibv_close_device(closed), 0);
  EXPECT_FALSE(adapter.has_cq_event()) << "nobody would wait awake for the events of others";
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
}

TEST_F(CompletionEvents, BlockingCallWakesUpThoughNobodyPolls) {
  // The message is already on its way when the receiver goes to sleep: only the background threads can move it.
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
  ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
  expect_no_completion(p.b.recv_cq);
  std::thread sender([&] {
    struct ibv_sge sge = p.a.sge(0, 64);
    EXPECT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, 0)), 0);
  });
  get_event();
  EXPECT_EQ(wait_completion(p.b.recv_cq).wr_id, 1u);
  sender.join();
}

TEST_F(CompletionEvents, EdgeTriggeredEpollSeesEveryEvent) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{};
  interest.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, p.b.channel->fd, &interest), 0);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
    send(i);
    epoll_event seen{};
    EXPECT_EQ(epoll_wait(epoll, &seen, 1, kPatienceMs), 1) << i;
  }
  for (int i = 0; i < 3; ++i) get_event();
  EXPECT_FALSE(has_event());
  close(epoll);
}

TEST_F(CompletionEvents, OneAcknowledgementMayCountForMany) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
    send(i);
    get_event(i < 2 ? 0 : 3);
  }
  // The destructor of the pair destroys the CQ, which would hang with one event too few.
}

/// A QP with a flushed receive in `cq`, which is an event for the channel.
struct ibv_qp* qp_with_event(Node& node, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  struct ibv_qp* qp = v().ibv_create_qp(node.pd, &init);
  EXPECT_EQ(set_state(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_EQ(post_recv(qp, 1, node.sge(0, 8)), 0);
  return qp;
}

TEST(CompletionEventsAlone, DestroyWaitsForAcknowledgements) {
  Node node(0, kWithChannel);
  struct ibv_cq* cq = v().ibv_create_cq(node.context.get(), 16, nullptr, node.channel, 0);
  struct ibv_qp* qp = qp_with_event(node, cq);
  struct ibv_cq* source = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(v().ibv_get_cq_event(node.channel, &source, &cq_context), 0);
  ASSERT_EQ(source, cq);
  ASSERT_EQ(v().ibv_destroy_qp(qp), 0);
  auto destroyed = std::async(std::launch::async, [cq] { return v().ibv_destroy_cq(cq); });
  EXPECT_EQ(destroyed.wait_for(50ms), std::future_status::timeout);
  v().ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(kPatienceMs)), std::future_status::ready);
  EXPECT_EQ(destroyed.get(), 0);
}

TEST(CompletionEventsAlone, EventsOfADestroyedCqAreGone) {
  Node node(0, kWithChannel);
  struct ibv_cq* cq = v().ibv_create_cq(node.context.get(), 16, nullptr, node.channel, 0);
  struct ibv_qp* qp = qp_with_event(node, cq);
  EXPECT_TRUE(readable(node.channel->fd, kPatienceMs));
  ASSERT_EQ(v().ibv_destroy_qp(qp), 0);
  ASSERT_EQ(v().ibv_destroy_cq(cq), 0);
  EXPECT_FALSE(readable(node.channel->fd, 0));
}

// --- Asynchronous events ------------------------------------------------------------------------------------------

TEST(AsyncEvents, NonBlockingDescriptorSaysAgain) {
  const ContextPtr context = open_device(0);
  EXPECT_FALSE(readable(context->async_fd, 0));
  set_nonblocking(context->async_fd);
  struct ibv_async_event event {};
  errno = 0;
  EXPECT_EQ(v().ibv_get_async_event(context.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(AsyncEvents, CommunicationEstablishedInRtr) {
  Node a(0), b(1);
  const QpPtr qa = a.make_qp(), qb = b.make_qp();
  bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num);
  bring_to(qb.get(), IBV_QPS_RTR, a.gid(), qa->qp_num);
  ASSERT_EQ(post_recv(qb.get(), 1, b.sge(0, 64)), 0);
  struct ibv_sge sge = a.sge(0, 64);
  ASSERT_EQ(post(qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(b.recv_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next_async_event(b.context.get()), IBV_EVENT_COMM_EST);
}

TEST(AsyncEvents, SendQueueDrainedOnlyWhenAskedFor) {
  Pair p;
  ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_SQD), 0);
  EXPECT_FALSE(readable(p.a.context->async_fd, 0));
  ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_RTS), 0);
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(v().ibv_modify_qp(p.qa.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_SQ_DRAINED);
}

TEST(AsyncEvents, CqOverflowIsTheEndOfTheCqAndItsQps) {
  Pair p({}, {.cqe = 1});
  struct ibv_sge sge = p.a.sge(0, 8);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.remote_addr = p.b.address();
  wr.wr.rdma.rkey = p.b.mr->rkey;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_ERR);
}

TEST(AsyncEvents, InvalidRequestIsToldToTheResponder) {
  ConnectOptions options;
  options.rd_atomic = 1;
  Node a(0), b(1);
  const QpPtr qa = a.make_qp(), qb = b.make_qp();
  bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num, options);
  options.rd_atomic = 0;  // The responder offers nothing.
  bring_to(qb.get(), IBV_QPS_RTS, a.gid(), qa->qp_num, options);
  struct ibv_sge sge = a.sge(0, 8);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_READ, &sge);
  wr.wr.rdma.remote_addr = b.address();
  wr.wr.rdma.rkey = b.mr->rkey;
  ASSERT_EQ(post(qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(next_async_event(b.context.get()), IBV_EVENT_QP_REQ_ERR);
}

TEST(AsyncEvents, DestroyQpWaitsForAcknowledgementAndDropsTheRest) {
  Pair p;
  struct ibv_sge sge = p.a.sge(0, 8);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.remote_addr = p.b.address();
  wr.wr.rdma.rkey = p.b.mr->rkey + 1;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(readable(p.b.context->async_fd, kPatienceMs));
  struct ibv_async_event event {};
  ASSERT_EQ(v().ibv_get_async_event(p.b.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, p.qb.get());
  auto destroyed = std::async(std::launch::async, [&] { p.qb.reset(); });
  EXPECT_EQ(destroyed.wait_for(50ms), std::future_status::timeout);
  v().ibv_ack_async_event(&event);
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(kPatienceMs)), std::future_status::ready);
  EXPECT_FALSE(readable(p.b.context->async_fd, 0));
}

}  // namespace
}  // namespace uroce::ibv::test
