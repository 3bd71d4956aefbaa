// SPDX-License-Identifier: Apache-2.0
// QPs as `rdma res show qp` sees them: from any process of the user.
#include "verbs/ibverbs/host/published_qps.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/os/os_clock.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/ibverbs/host/published_memory.h"

namespace uroce::ibv::test {
namespace {

std::optional<view::QpView> find(std::uint32_t qpn) {
  for (const view::QpView& qp : nic_source().qps(0)) {
    if (qp.qpn == qpn) return qp;
  }
  return std::nullopt;
}

TEST(PublishedQps, FollowAQpFromItsCreationToItsEnd) {
  Node a(0), b(1);
  QpPtr qp = a.make_qp();
  const std::uint32_t qpn = qp->qp_num;
  ASSERT_TRUE(find(qpn).has_value());
  EXPECT_EQ(find(qpn)->state, IBV_QPS_RESET);
  bring_to(qp.get(), IBV_QPS_RTS, b.gid(), 77);
  const auto shown = find(qpn);
  ASSERT_TRUE(shown.has_value());
  EXPECT_EQ(shown->state, IBV_QPS_RTS);
  EXPECT_EQ(shown->type, IBV_QPT_RC);
  EXPECT_TRUE(shown->is_connected);
  EXPECT_EQ(shown->dest_qpn, 77u);
  EXPECT_EQ(shown->sq_psn, 0xFFFFF0u);
  EXPECT_EQ(shown->pid, static_cast<std::uint32_t>(getpid()));
  qp.reset();
  EXPECT_FALSE(find(qpn).has_value());
}

std::optional<LiveQp> look_at(std::uint32_t qpn) {
  for (const LiveNic& nic : live_nics(static_cast<std::uint32_t>(getpid()))) {
    for (const LiveQp& qp : nic.qps) {
      if (qp.qpn == qpn) return qp;
    }
  }
  return std::nullopt;
}

TEST(PublishedQps, TellWhatAQpDoesAndHasInItsHead) {
  Pair pair({.timeout = 14, .retry_cnt = 1});  // 67 ms: a busy machine takes longer than 4 to answer.
  const std::uint32_t qpn = pair.qa->qp_num;
  struct ibv_sge sge = pair.a.sge(0, 2000);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
  ASSERT_EQ(post(pair.qa.get(), wr), 0);
  ASSERT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_SUCCESS);
  pair.a.sync();  // The turn that has brought the completion is over.
  auto qp = look_at(qpn);
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->counts.sent_packets, 2u);
  EXPECT_EQ(qp->counts.sent_bytes, 2000u + 2 * 16u + 16u);
  EXPECT_EQ(qp->counts.received_packets, 1u);
  EXPECT_EQ(qp->fixed.attr.retry_cnt, 1);
  EXPECT_EQ(qp->moving.inside.una.value(), 0xFFFFF2u);
  EXPECT_EQ(qp->moving.inside.next.value(), 0xFFFFF2u);
  EXPECT_EQ(qp->moving.inside.window_used, 0u);
  EXPECT_GT(qp->moving.inside.window_limit, 0u);
  EXPECT_EQ(qp->moving.inside.retries_left, 1u);
  const auto peer = look_at(pair.qb->qp_num);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->counts.received_bytes, qp->counts.sent_bytes);
  EXPECT_EQ(peer->moving.inside.expected.value(), 0xFFFFF2u);
  EXPECT_EQ(peer->moving.inside.msn, 1u);

  pair.qb.reset();  // Now nobody answers.
  ASSERT_EQ(post(pair.qa.get(), wr), 0);
  ASSERT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_RETRY_EXC_ERR);
  pair.a.sync();
  qp = look_at(qpn);
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->moving.state, nic::QpState::kErr);
  EXPECT_EQ(qp->counts.timeouts, 2u);
  EXPECT_EQ(qp->counts.retransmitted, 2u);
  EXPECT_EQ(qp->moving.inside.queued_sends, 0u);
}

/// What comes from another address than the peer's is counted, but the peer is not heard by it.
TEST(PublishedQps, AStrangerIsNotThePeer) {
  Node a(0), stranger(1);
  union ibv_gid nobody = stranger.gid();
  nobody.raw[15] = 99;
  QpPtr qp = a.make_qp(), other = stranger.make_qp();
  bring_to(qp.get(), IBV_QPS_RTS, nobody, other->qp_num);
  bring_to(other.get(), IBV_QPS_RTS, a.gid(), qp->qp_num, {.timeout = 8, .retry_cnt = 1});
  struct ibv_sge sge = stranger.sge(0, 4);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma = {a.address(), a.mr->rkey};
  ASSERT_EQ(post(other.get(), wr), 0);
  ASSERT_EQ(wait_completion(stranger.send_cq).status, IBV_WC_RETRY_EXC_ERR);
  a.sync();
  const auto shown = look_at(qp->qp_num);
  ASSERT_TRUE(shown);
  EXPECT_GE(shown->counts.received_packets, 1u);
  EXPECT_EQ(shown->counts.last_received_ns, 0);
}

TEST(PublishedQps, OfAnotherBuildAreNotShown) {
  constexpr std::size_t kLarger = 16 << 20;
  void* memory = nullptr;
  const engine::Fd fd = publish_memory(published_name("qps", "another"), kLarger, &memory);
  ASSERT_TRUE(fd);
  std::memset(memory, 0x55, kLarger);
  EXPECT_TRUE(published_qps("another").empty());
  ::munmap(memory, kLarger);
}

TEST(PublishedQps, TimersHaveTheNamesOfTheirService) {
  EXPECT_STREQ(nic::timer_names(nic::QpType::kRc)[1], "rnr");
  EXPECT_STREQ(nic::timer_names(nic::QpType::kRc)[3], "stall");
  for (const nic::QpType type : {nic::QpType::kUc, nic::QpType::kUd}) {
    EXPECT_STREQ(nic::timer_names(type)[1], "room");
    EXPECT_STREQ(nic::timer_names(type)[3], "hold");
  }
}

TEST(PublishedQps, TellWhatWasDroppedForWantOfAReceive) {
  Node a(0), b(1);
  const QpPtr qa = a.make_qp({64, 64, 1, 1, 0}, false, IBV_QPT_UC),
              qb = b.make_qp({64, 64, 1, 1, 0}, false, IBV_QPT_UC);
  bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num);
  bring_to(qb.get(), IBV_QPS_RTS, a.gid(), qa->qp_num);
  struct ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post(qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  std::uint64_t dropped = 0;
  const Instant limit = engine::os_now() + std::chrono::milliseconds(kPatienceMs);
  while (dropped == 0 && engine::os_now() < limit) dropped = look_at(qb->qp_num)->counts.dropped_no_receive;
  EXPECT_EQ(dropped, 1u);
  EXPECT_EQ(nic_facts(b.context.get())->counters.dropped_no_receive, 1u);
}

}  // namespace
}  // namespace uroce::ibv::test
