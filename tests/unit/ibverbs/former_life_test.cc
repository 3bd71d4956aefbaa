// SPDX-License-Identifier: Apache-2.0
// A QP that goes through RESET begins a new life. An adapter takes packets as they come; ours may lie unread in a
// socket when the program goes on. They must not find the next life, of which they would mean something else.
#include <thread>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

using namespace std::chrono_literals;

/// Whether packets are unread at RESET depends on when threads run: in some of so many lives they are.
constexpr int kLives = 100;

struct FormerLife : testing::Test {
  FormerLife() : pair({.rnr_retry = 0}) {}
  void TearDown() override {
    EXPECT_EQ(set_state(a, IBV_QPS_RESET), 0);
    EXPECT_EQ(set_state(b, IBV_QPS_RESET), 0);
  }
  void reset() const {
    ASSERT_EQ(set_state(a, IBV_QPS_RESET), 0);
    ASSERT_EQ(set_state(b, IBV_QPS_RESET), 0);
  }
  void reconnect() const {
    bring_to(a, IBV_QPS_RTS, pair.b.gid(), b->qp_num, {.rnr_retry = 0});
    bring_to(b, IBV_QPS_RTS, pair.a.gid(), a->qp_num, {.rnr_retry = 0});
  }
  /// Packets that come next are left to this thread for a moment: it polls.
  static void poll(struct ibv_cq* cq) {
    for (int i = 0; i < 20; ++i) expect_no_completion(cq);
  }
  /// READ, WRITE or SEND of a byte; the first two of the peer's byte at `offset`.
  void post_byte(enum ibv_wr_opcode opcode, std::size_t offset = 0) const {
    struct ibv_sge sge = pair.a.sge(0, 1);
    struct ibv_send_wr wr = send_wr(1, opcode, &sge);
    wr.wr.rdma = {pair.b.address(offset), pair.b.mr->rkey};
    ASSERT_EQ(post(a, wr), 0);
  }

  Pair pair;
  struct ibv_qp* const a = pair.qa.get();
  struct ibv_qp* const b = pair.qb.get();
};

// How books say that one recovers from an error.
TEST_F(FormerLife, ItsReadsDoNotBringDataIntoTheNext) {
  pair.b.memory[0] = 'X';
  pair.b.memory[1] = 'Y';
  for (int life = 0; life < kLives; ++life) {
    poll(pair.a.send_cq);
    for (int i = 0; i < 4; ++i) post_byte(IBV_WR_RDMA_READ);
    std::this_thread::sleep_for(life * 1us);  // The peer answers some of them.
    ASSERT_EQ(set_state(a, IBV_QPS_ERR), 0);
    ASSERT_EQ(set_state(b, IBV_QPS_ERR), 0);
    for (int i = 0; i < 4; ++i) wait_completion(pair.a.send_cq);
    reset();
    reconnect();
    post_byte(IBV_WR_RDMA_READ, 1);
    ASSERT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_SUCCESS);
    pair.a.sync();
    ASSERT_EQ(pair.a.memory[0], 'Y');
  }
}

TEST_F(FormerLife, ItsAnswersDoNotAcknowledgeTheNext) {
  for (int life = 0; life < kLives; ++life) {
    ASSERT_EQ(post_recv(b, 1, pair.b.sge(0, 1)), 0);
    post_byte(IBV_WR_SEND);
    reset();
    reconnect();
    post_byte(IBV_WR_SEND);
    ASSERT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_RNR_RETRY_EXC_ERR) << "nobody has received it";
    reset();
    reconnect();
  }
}

TEST_F(FormerLife, ItsMessagesAreNotReceivedInTheNext) {
  for (int life = 0; life < kLives; ++life) {
    pair.a.memory[0] = 'X';
    poll(pair.b.recv_cq);
    post_byte(IBV_WR_SEND);
    reset();
    reconnect();
    ASSERT_EQ(post_recv(b, 1, pair.b.sge(0, 1)), 0);
    pair.a.memory[0] = 'Y';
    post_byte(IBV_WR_SEND);
    ASSERT_EQ(wait_completion(pair.b.recv_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(pair.b.memory[0], 'Y');
    ASSERT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_SUCCESS);
  }
}

}  // namespace
}  // namespace uroce::ibv::test
