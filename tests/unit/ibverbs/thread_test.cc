// SPDX-License-Identifier: Apache-2.0
// Many threads on the same two NICs: for the thread sanitizer, and for deadlocks.
#include <atomic>
#include <thread>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

/// Messages back and forth on a pair of its own.
void talk(std::uint64_t rounds) {
  Pair p({}, {}, {.with_channel = true});
  struct ibv_sge from_a = p.a.sge(0, 3000);
  struct ibv_sge from_b = p.b.sge(0, 3000);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    ASSERT_EQ(post_recv(p.qa.get(), i, p.a.sge(4096, 3000)), 0);
    ASSERT_EQ(post_recv(p.qb.get(), i, p.b.sge(4096, 3000)), 0);
    ASSERT_EQ(ibv_req_notify_cq(p.b.recv_cq, 0), 0);
    ASSERT_EQ(post(p.qa.get(), send_wr(i, IBV_WR_SEND, &from_a)), 0);
    struct ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(v().ibv_get_cq_event(p.b.channel, &cq, &cq_context), 0);
    v().ibv_ack_cq_events(cq, 1);
    ASSERT_EQ(wait_completion(p.b.recv_cq).wr_id, i);
    ASSERT_EQ(post(p.qb.get(), send_wr(i, IBV_WR_SEND, &from_b)), 0);
    ASSERT_EQ(wait_completion(p.a.recv_cq).wr_id, i);
    ASSERT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(wait_completion(p.b.send_cq).status, IBV_WC_SUCCESS);
  }
}

TEST(Threads, TalkWhileOthersComeAndGo) {
  const ContextPtr keep_a = open_device(0);
  const ContextPtr keep_b = open_device(1);
  std::atomic<bool> done = false;
  std::thread visitor([&] {
    while (!done) {
      Node node(0);
      const QpPtr qp = node.make_qp();
      EXPECT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
      EXPECT_EQ(post_recv(qp.get(), 1, node.sge(0, 8)), 0);
      EXPECT_EQ(wait_completion(node.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
    }
  });
  std::thread talkers[] = {std::thread(talk, 100), std::thread(talk, 100), std::thread(talk, 100)};
  for (std::thread& talker : talkers) talker.join();
  done = true;
  visitor.join();
}

TEST(Threads, OneCqPolledByManyGivesEachCompletionOnce) {
  constexpr std::uint64_t kMessages = 500;
  Pair p({}, {.cqe = 1024});
  std::vector<std::atomic<int>> seen(kMessages);
  std::atomic<std::uint64_t> total = 0;
  const auto poll = [&] {
    while (total < kMessages) {
      struct ibv_wc wc[4];
      const int n = ibv_poll_cq(p.a.send_cq, 4, wc);
      ASSERT_GE(n, 0);
      for (int i = 0; i < n; ++i) {
        ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS);
        ++seen[wc[i].wr_id];
      }
      total += static_cast<std::uint64_t>(n);
    }
  };
  std::thread pollers[] = {std::thread(poll), std::thread(poll)};
  struct ibv_sge sge = p.a.sge(0, 100);
  for (std::uint64_t i = 0; i < kMessages;) {
    struct ibv_send_wr wr = send_wr(i, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma.remote_addr = p.b.address();
    wr.wr.rdma.rkey = p.b.mr->rkey;
    const int error = post(p.qa.get(), wr);
    if (error == 0) {
      ++i;
    } else {
      ASSERT_EQ(error, ENOMEM);
      std::this_thread::yield();
    }
  }
  for (std::thread& poller : pollers) poller.join();
  for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

/// Calls a verb that fails when the thread's own objects end.
struct Late {
  ~Late() {
    refuse(EBUSY, "a sentence that is too long to be kept within an object, and then some");
    *said = last_error();
  }
  std::string* said;
};

TEST(Threads, AVerbMayFailWhenTheObjectsOfItsThreadHaveEnded) {
  std::string said;
  std::thread([&] {
    static thread_local Late late{&said};
    static_cast<void>(late.said);
    refuse(EINVAL, "another sentence that is too long to be kept within an object");
  }).join();
  EXPECT_EQ(said, "a sentence that is too long to be kept within an object, and then some");
}

}  // namespace
}  // namespace uroce::ibv::test
