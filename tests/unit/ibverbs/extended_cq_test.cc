// SPDX-License-Identifier: Apache-2.0
// Extended completion queues: polling field by field, time stamps, moderation, overruns.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "engine/os/os_clock.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/wall_offset.h"

namespace uroce::ibv::test {
namespace {

using std::chrono::steady_clock;

struct ibv_cq_init_attr_ex cq_attr(std::uint64_t wc_flags, std::uint32_t cqe = 16) {
  struct ibv_cq_init_attr_ex attr {};
  attr.cqe = cqe;
  attr.wc_flags = wc_flags;
  return attr;
}

/// A connected pair whose first side completes sends in an extended CQ.
class ExtendedCq : public testing::Test {
 protected:
  void make(struct ibv_cq_init_attr_ex attr) {
    cq = ibv_create_cq_ex(p.a.context.get(), &attr);
    ASSERT_NE(cq, nullptr) << std::strerror(errno);
    struct ibv_qp_init_attr init {};
    init.send_cq = ibv_cq_ex_to_cq(cq);
    init.recv_cq = p.a.recv_cq;
    init.cap = {64, 64, 4, 4, 0};
    init.qp_type = IBV_QPT_RC;
    qp.reset(v().ibv_create_qp(p.a.pd, &init));
    ASSERT_NE(qp, nullptr);
    other = p.b.make_qp();
    bring_to(qp.get(), IBV_QPS_RTS, p.b.gid(), other->qp_num);
    bring_to(other.get(), IBV_QPS_RTS, p.a.gid(), qp->qp_num);
  }
  void TearDown() override {
    qp.reset();
    if (cq == nullptr) return;
    EXPECT_EQ(v().ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  }
  void write(std::uint64_t wr_id) {
    struct ibv_sge sge = p.a.sge(0, 8);
    struct ibv_send_wr wr = send_wr(wr_id, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma.remote_addr = p.b.address(64);
    wr.wr.rdma.rkey = p.b.mr->rkey;
    ASSERT_EQ(post(qp.get(), wr), 0);
  }
  /// Polls until there is something to read.
  int start() {
    const auto give_up = steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    struct ibv_poll_cq_attr attr {};
    int error = ENOENT;
    while (error == ENOENT && steady_clock::now() < give_up) error = ibv_start_poll(cq, &attr);
    return error;
  }

  Pair p;
  struct ibv_cq_ex* cq = nullptr;
  QpPtr qp, other;
};

constexpr std::uint64_t kTimes =
    std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

TEST_F(ExtendedCq, ReadsCompletionsOneByOne) {
  ASSERT_NO_FATAL_FAILURE(make(cq_attr(IBV_WC_STANDARD_FLAGS)));
  struct ibv_poll_cq_attr attr {};
  EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT) << "and needs no ibv_end_poll()";
  write(1);
  write(2);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 1u);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0u);
  EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
  const auto give_up = steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  int error = ibv_next_poll(cq);
  for (; error == ENOENT && steady_clock::now() < give_up; error = start()) ibv_end_poll(cq);
  ASSERT_EQ(error, 0);
  EXPECT_EQ(cq->wr_id, 2u);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
}

TEST_F(ExtendedCq, ReceivesHaveTheirFields) {
  auto attr = cq_attr(IBV_WC_STANDARD_FLAGS);
  cq = ibv_create_cq_ex(p.a.context.get(), &attr);
  ASSERT_NE(cq, nullptr);
  struct ibv_qp_init_attr init {};
  init.send_cq = p.a.send_cq;
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  qp.reset(v().ibv_create_qp(p.a.pd, &init));
  ASSERT_NE(qp, nullptr);
  other = p.b.make_qp();
  bring_to(qp.get(), IBV_QPS_RTS, p.b.gid(), other->qp_num);
  bring_to(other.get(), IBV_QPS_RTS, p.a.gid(), qp->qp_num);
  ASSERT_EQ(post_recv(qp.get(), 5, p.a.sge(0, 100)), 0);
  struct ibv_sge sge = p.b.sge(0, 33);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND_WITH_IMM, &sge);
  wr.imm_data = 0x01020304;
  ASSERT_EQ(post(other.get(), wr), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 5u);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 33u);
  EXPECT_EQ(ibv_wc_read_imm_data(cq), 0x01020304u);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
  ibv_end_poll(cq);
}

TEST_F(ExtendedCq, ReceivesOfUdSayHowThePacketCame) {
  auto attr = cq_attr(IBV_WC_STANDARD_FLAGS);
  cq = ibv_create_cq_ex(p.a.context.get(), &attr);
  ASSERT_NE(cq, nullptr);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  qp.reset(v().ibv_create_qp(p.a.pd, &init));
  ASSERT_NE(qp, nullptr);
  bring_to(qp.get(), IBV_QPS_RTS, {}, 0);
  ASSERT_EQ(post_recv(qp.get(), 5, p.a.sge(0, 100)), 0);
  struct ibv_ah_attr to_itself {};
  to_itself.is_global = to_itself.port_num = to_itself.grh.sgid_index = 1;
  to_itself.grh.dgid = p.a.gid();
  struct ibv_ah* const ah = impl::ibv_create_ah(p.a.pd, &to_itself);
  ASSERT_NE(ah, nullptr);
  struct ibv_sge sge = p.a.sge(200, 33);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, &sge, 0);
  wr.wr.ud = {ah, qp->qp_num, kQkey};
  ASSERT_EQ(post(qp.get(), wr), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 5u);
  EXPECT_EQ(ibv_wc_read_sl(cq), 0xA) << "UDP over IPv4";
  ibv_end_poll(cq);
  EXPECT_EQ(impl::ibv_destroy_ah(ah), 0);
}

TEST_F(ExtendedCq, AnswersPlainPollingToo) {
  ASSERT_NO_FATAL_FAILURE(make(cq_attr(0)));
  write(9);
  EXPECT_EQ(wait_completion(ibv_cq_ex_to_cq(cq)).wr_id, 9u);
}

TEST_F(ExtendedCq, TheTwoTimesOfCompletionsAreEquallyFarApart) {
  ASSERT_NO_FATAL_FAILURE(make(cq_attr(kTimes)));
  std::vector<std::int64_t> ahead;
  for (std::uint64_t id = 1; id <= 50; ++id) {
    write(id);
    ASSERT_EQ(start(), 0);
    for (int i = 0; i < 4; ++i) {
      ahead.push_back(
          static_cast<std::int64_t>(ibv_wc_read_completion_wallclock_ns(cq) - ibv_wc_read_completion_ts(cq)));
    }
    ibv_end_poll(cq);
  }
  // Where this thread lost its processor between the two clocks, they differ for once.
  const auto usual = std::count(ahead.begin(), ahead.end(), ahead[ahead.size() / 2]);
  EXPECT_GT(usual, static_cast<std::ptrdiff_t>(ahead.size() / 4 * 3));
}

TEST(WallOffset, IsANewOneAfterAStepHoweverSlowTheClocks) {
  using namespace std::chrono_literals;
  using std::chrono::nanoseconds;
  constexpr nanoseconds kKnown = 1h;
  EXPECT_EQ(wall_offset(nanoseconds::zero(), kKnown, 20us), kKnown);
  EXPECT_EQ(wall_offset(kKnown, kKnown + 900ns, 50ns), kKnown);
  EXPECT_EQ(wall_offset(kKnown, kKnown + 15us, 20us), kKnown);  // Interrupted between the clocks.
  EXPECT_EQ(wall_offset(kKnown, kKnown + 2us, 50ns), kKnown + 2us);
  EXPECT_EQ(wall_offset(kKnown, kKnown - 5s, 20us), kKnown - 5s);
}

TEST_F(ExtendedCq, StampsCompletionsWithBothClocks) {
  ASSERT_NO_FATAL_FAILURE(make(cq_attr(kTimes)));
  struct ibv_values_ex before {};
  before.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(p.a.context.get(), &before), 0);
  const auto wall_before = engine::wall_clock_now().count();
  write(1);
  ASSERT_EQ(start(), 0);
  const std::uint64_t stamp = ibv_wc_read_completion_ts(cq);
  const auto wall = static_cast<std::int64_t>(ibv_wc_read_completion_wallclock_ns(cq));
  ibv_end_poll(cq);
  struct ibv_values_ex after {};
  after.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(p.a.context.get(), &after), 0);
  EXPECT_GE(stamp, static_cast<std::uint64_t>(before.raw_clock.tv_nsec));
  EXPECT_LE(stamp, static_cast<std::uint64_t>(after.raw_clock.tv_nsec));
  constexpr std::int64_t kStep = 1'000'000;  // The two clocks are not read at the same instant.
  EXPECT_GE(wall, wall_before - kStep);
  EXPECT_LE(wall, engine::wall_clock_now().count() + kStep);
}

TEST_F(ExtendedCq, AFlushBearsTheTimeOfTheCall) {
  ASSERT_NO_FATAL_FAILURE(make(cq_attr(kTimes)));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // In which the NIC hears of no time.
  const auto before = static_cast<std::uint64_t>(engine::os_now().time_since_epoch().count());
  ASSERT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
  write(1);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_GE(ibv_wc_read_completion_ts(cq), before);
  ibv_end_poll(cq);
}

TEST_F(ExtendedCq, RefusesWhatItDoesNotHave) {
  constexpr std::uint64_t kLacking[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO,
                                        std::uint64_t{1} << 40};
  for (const std::uint64_t flag : kLacking) {
    auto attr = cq_attr(flag);
    EXPECT_EQ(ibv_create_cq_ex(p.a.context.get(), &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  auto attr = cq_attr(0);
  attr.comp_mask = 1u << 31;
  EXPECT_EQ(ibv_create_cq_ex(p.a.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = cq_attr(0, ~0u);
  EXPECT_EQ(ibv_create_cq_ex(p.a.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = cq_attr(0);
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = 1u << 30;
  EXPECT_EQ(ibv_create_cq_ex(p.a.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.flags = 0;
  ASSERT_NE(cq = ibv_create_cq_ex(p.a.context.get(), &attr), nullptr);
  struct ibv_poll_cq_attr poll {};
  poll.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(cq, &poll), EINVAL);
}

TEST_F(ExtendedCq, OverrunsAreIgnoredWhereThatIsAskedFor) {
  auto attr = cq_attr(0, 2);
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ASSERT_NO_FATAL_FAILURE(make(attr));
  for (std::uint64_t i = 0; i < 5; ++i) write(i);
  // The last of them has arrived when the peer has answered what came after it.
  struct ibv_sge sge = p.a.sge(0, 8);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 8)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTS);
}

TEST_F(ExtendedCq, ModerationHoldsEventsBack) {
  struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(p.a.context.get());
  auto attr = cq_attr(0, 64);
  attr.channel = channel;
  ASSERT_NO_FATAL_FAILURE(make(attr));
  struct ibv_cq* const plain = ibv_cq_ex_to_cq(cq);
  struct ibv_modify_cq_attr change {};
  change.attr_mask = IBV_CQ_ATTR_MODERATE;
  change.moderate = {3, 60'000};
  ASSERT_EQ(ibv_modify_cq(plain, &change), 0);
  ASSERT_EQ(ibv_req_notify_cq(plain, 0), 0);
  const auto began = steady_clock::now();
  write(1);
  write(2);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs)) << "when the period is over";
  EXPECT_GE(steady_clock::now() - began, std::chrono::milliseconds(59));
  const auto take = [&] {
    struct ibv_cq* source = nullptr;
    void* context = nullptr;
    ASSERT_EQ(v().ibv_get_cq_event(channel, &source, &context), 0);
    EXPECT_EQ(source, plain);
    v().ibv_ack_cq_events(source, 1);
  };
  take();
  change.moderate = {3, 65'535};
  ASSERT_EQ(ibv_modify_cq(plain, &change), 0);
  ASSERT_EQ(ibv_req_notify_cq(plain, 0), 0);
  for (std::uint64_t i = 3; i < 6; ++i) write(i);
  ASSERT_TRUE(readable(channel->fd, kPatienceMs)) << "after three";
  take();
  change.attr_mask = 1u << 5;
  EXPECT_EQ(ibv_modify_cq(plain, &change), EINVAL);
  qp.reset();
  EXPECT_EQ(v().ibv_destroy_cq(plain), 0);
  cq = nullptr;
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
}

}  // namespace
}  // namespace uroce::ibv::test
