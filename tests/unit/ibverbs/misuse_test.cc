// SPDX-License-Identifier: Apache-2.0
// What the verbs refuse, and with which errno. Failures of the peer and of keys are completions: see data_test.cc and
// memory_test.cc.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/tunables.h"

namespace uroce::ibv::test {
namespace {

class Misuse : public testing::Test {
 protected:
  int try_create_cq(int cqe, int comp_vector = 0, struct ibv_comp_channel* channel = nullptr) {
    errno = 0;
    struct ibv_cq* cq = v().ibv_create_cq(node.context.get(), cqe, nullptr, channel, comp_vector);
    if (cq == nullptr) return errno;
    EXPECT_GE(cq->cqe, cqe);
    EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
    return 0;
  }
  struct ibv_qp_init_attr good_init() {
    struct ibv_qp_init_attr init {};
    init.send_cq = node.send_cq;
    init.recv_cq = node.recv_cq;
    init.cap = {16, 16, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    return init;
  }
  int try_create_qp(struct ibv_qp_init_attr init) {
    errno = 0;
    struct ibv_qp* qp = v().ibv_create_qp(node.pd, &init);
    if (qp == nullptr) return errno;
    EXPECT_EQ(v().ibv_destroy_qp(qp), 0);
    return 0;
  }

  Node node{0};
};

TEST_F(Misuse, ThereAreSoManyProtectionDomainsAndNoMore) {
  std::vector<struct ibv_pd*> all;
  struct ibv_pd* made = nullptr;
  while (all.size() <= nic::kMaxPd && (made = v().ibv_alloc_pd(node.context.get())) != nullptr) all.push_back(made);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(all.size() + 1, nic::kMaxPd) << "the node has one";
  for (auto pd = all.rbegin(); pd != all.rend(); ++pd) EXPECT_EQ(v().ibv_dealloc_pd(*pd), 0);
}

TEST_F(Misuse, ThereAreSoManyAddressHandlesAndNoMore) {
  struct ibv_ah_attr attr {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = node.gid();
  attr.grh.sgid_index = 1;
  std::vector<struct ibv_ah*> all;
  struct ibv_ah* made = nullptr;
  while (all.size() <= nic::kMaxAh && (made = impl::ibv_create_ah(node.pd, &attr)) != nullptr) all.push_back(made);
  EXPECT_EQ(errno, ENOMEM);
  ASSERT_EQ(all.size(), nic::kMaxAh);
  EXPECT_EQ(impl::ibv_destroy_ah(all.back()), 0);
  all.back() = impl::ibv_create_ah(node.pd, &attr);
  EXPECT_NE(all.back(), nullptr) << "there is room for one again";
  for (struct ibv_ah* const ah : all) EXPECT_EQ(impl::ibv_destroy_ah(ah), 0);
}

/// All large pieces that malloc() still has. What other tests of this process have freed is no new memory, which a
/// limit could refuse.
class HeldMemory {
 public:
  HeldMemory() {
    while (auto* const piece = static_cast<Piece*>(std::malloc(kPiece))) last_ = new (piece) Piece{last_};
  }
  ~HeldMemory() {
    while (last_ != nullptr) std::free(std::exchange(last_, last_->next));
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

 private:
  struct Piece {
    Piece* next;
  };
  /// Small things can still be made.
  static constexpr std::size_t kPiece = 1 << 20;
  Piece* last_ = nullptr;
};

TEST_F(Misuse, WithoutMemoryNothingIsMade) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs memory of its own";
#endif
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit former{};
  ::getrlimit(RLIMIT_AS, &former);
  const rlim_t room = 4 << 20;
  const rlimit tight{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + room, former.rlim_max};
  struct ibv_qp_init_attr large = good_init();
  large.cap = {nic::kMaxQpWr, nic::kMaxQpWr, nic::kMaxSge, nic::kMaxSge, nic::kMaxInline};
  struct ibv_srq_init_attr srq {};
  srq.attr = {nic::kMaxSrqWr, nic::kMaxSrqSge, 0};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const HeldMemory held;
  const int cq_error = try_create_cq(nic::kMaxCqe);
  const int resize_error = v().ibv_resize_cq(node.send_cq, nic::kMaxCqe);
  const int qp_error = try_create_qp(large);
  errno = 0;
  EXPECT_EQ(impl::ibv_create_srq(node.pd, &srq), nullptr);
  const int srq_error = errno;
  ::setrlimit(RLIMIT_AS, &former);
  for (const int error : {cq_error, resize_error, qp_error, srq_error}) EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(try_create_cq(nic::kMaxCqe), 0);
  EXPECT_EQ(try_create_qp(large), 0);
}

TEST_F(Misuse, CqSizes) {
  EXPECT_EQ(try_create_cq(1), 0);
  EXPECT_EQ(try_create_cq(0), EINVAL);
  EXPECT_EQ(try_create_cq(-1), EINVAL);
  EXPECT_EQ(try_create_cq(static_cast<int>(nic::kMaxCqe) + 1), EINVAL);
  EXPECT_EQ(try_create_cq(16, 1), EINVAL);
  EXPECT_EQ(try_create_cq(16, -1), EINVAL);
}

// As after the system calls of real drivers: perftest and UCX print errno, and not what the verb returned.
TEST_F(Misuse, WhatAVerbReturnsIsInErrnoToo) {
  const QpPtr qp = node.make_qp();
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTS;
  errno = 0;
  EXPECT_EQ(v().ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(v().ibv_destroy_cq(node.send_cq), EBUSY);
  EXPECT_EQ(errno, EBUSY);
}

TEST_F(Misuse, CqOnTheChannelOfAnotherContext) {
  Node other(1, {.with_channel = true});
  EXPECT_EQ(try_create_cq(16, 0, other.channel), EINVAL);
}

TEST_F(Misuse, CqResize) {
  EXPECT_EQ(v().ibv_resize_cq(node.recv_cq, 0), EINVAL);
  EXPECT_EQ(v().ibv_resize_cq(node.recv_cq, static_cast<int>(nic::kMaxCqe) + 1), EINVAL);
  EXPECT_EQ(v().ibv_resize_cq(node.recv_cq, 300), 0);
  EXPECT_GE(node.recv_cq->cqe, 300);
  const QpPtr qp = node.make_qp();
  ASSERT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(post_recv(qp.get(), i, node.sge(0, 8)), 0);
  EXPECT_EQ(v().ibv_resize_cq(node.recv_cq, 4), EINVAL) << "five completions wait";
  EXPECT_EQ(v().ibv_resize_cq(node.recv_cq, 5), 0);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(wait_completion(node.recv_cq).wr_id, i);
}

TEST_F(Misuse, QpTypesAndCapabilities) {
  EXPECT_EQ(try_create_qp(good_init()), 0);
  for (const enum ibv_qp_type type :
       {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER}) {
    struct ibv_qp_init_attr init = good_init();
    init.qp_type = type;
    EXPECT_EQ(try_create_qp(init), type <= IBV_QPT_UD ? 0 : EOPNOTSUPP) << type;
  }
  struct ibv_qp_init_attr init = good_init();
  init.cap = {0, 0, 0, 0, 0};
  EXPECT_EQ(try_create_qp(init), 0);
  init = good_init();
  init.cap = {nic::kMaxQpWr, nic::kMaxQpWr, 1, 1, 0};
  EXPECT_EQ(try_create_qp(init), 0);
  init.cap.max_send_wr++;
  EXPECT_EQ(try_create_qp(init), EINVAL);
  init = good_init();
  init.cap = {1, 1, nic::kMaxSge, nic::kMaxSge, nic::kMaxInline};
  EXPECT_EQ(try_create_qp(init), 0);
  init.cap.max_send_sge++;
  EXPECT_EQ(try_create_qp(init), EINVAL);
  init = good_init();
  init.cap.max_recv_sge = nic::kMaxSge + 1;
  EXPECT_EQ(try_create_qp(init), EINVAL);
  init = good_init();
  init.cap.max_inline_data = nic::kMaxInline + 1;
  EXPECT_EQ(try_create_qp(init), EINVAL);
  init = good_init();
  init.send_cq = nullptr;
  EXPECT_EQ(try_create_qp(init), EINVAL);
  Node other(1);
  init = good_init();
  init.recv_cq = other.recv_cq;
  EXPECT_EQ(try_create_qp(init), EINVAL);
}

// --- Posting ------------------------------------------------------------------------------------------------------

struct PostingRow {
  enum ibv_qp_state state;
  int send_error;
  int recv_error;
};

TEST_F(Misuse, PostingByState) {
  for (const PostingRow& row :
       {PostingRow{IBV_QPS_RESET, EINVAL, EINVAL}, PostingRow{IBV_QPS_INIT, EINVAL, 0},
        PostingRow{IBV_QPS_RTR, EINVAL, 0}, PostingRow{IBV_QPS_SQD, 0, 0}, PostingRow{IBV_QPS_ERR, 0, 0}}) {
    SCOPED_TRACE(row.state);
    const QpPtr qp = node.make_qp();
    if (row.state == IBV_QPS_ERR) {
      ASSERT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
    }
    if (row.state == IBV_QPS_INIT || row.state == IBV_QPS_RTR) bring_to(qp.get(), row.state, node.gid(), 0x999);
    if (row.state == IBV_QPS_SQD) {
      bring_to(qp.get(), IBV_QPS_RTS, node.gid(), 0x999);
      ASSERT_EQ(set_state(qp.get(), IBV_QPS_SQD), 0);
    }
    struct ibv_sge sge = node.sge(0, 8);
    struct ibv_send_wr send = send_wr(1, IBV_WR_SEND, &sge);
    struct ibv_recv_wr recv {};
    recv.wr_id = 2;
    recv.sg_list = &sge;
    recv.num_sge = 1;
    struct ibv_send_wr* bad_send = nullptr;
    struct ibv_recv_wr* bad_recv = nullptr;
    EXPECT_EQ(ibv_post_send(qp.get(), &send, &bad_send), row.send_error);
    EXPECT_EQ(bad_send, row.send_error != 0 ? &send : nullptr);
    EXPECT_EQ(ibv_post_recv(qp.get(), &recv, &bad_recv), row.recv_error);
    EXPECT_EQ(bad_recv, row.recv_error != 0 ? &recv : nullptr);
    if (row.state != IBV_QPS_ERR) continue;
    EXPECT_EQ(wait_completion(node.send_cq).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wait_completion(node.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
  }
}

class MisusePosting : public testing::Test {
 protected:
  Pair p{{}, {}, {}, {16, 16, 2, 2, 32}};
  struct ibv_sge sge = p.a.sge(0, 8);
};

TEST_F(MisusePosting, OpcodesAndFlagsThatDoNotExist) {
  for (const int opcode : {-1, 8, 10, 11, 99}) {
    struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, &sge);
    set_raw(wr.opcode, opcode);
    EXPECT_EQ(post(p.qa.get(), wr), EINVAL) << opcode;
  }
  EXPECT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, IBV_SEND_IP_CSUM)), EINVAL);
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_RTS);
  expect_no_completion(p.a.send_cq);
}

TEST_F(MisusePosting, TooManySges) {
  struct ibv_sge sges[40];
  std::fill(std::begin(sges), std::end(sges), sge);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, sges);
  for (const int count : {-1, 3, 33, 40}) {
    wr.num_sge = count;
    EXPECT_EQ(post(p.qa.get(), wr), EINVAL) << count;
  }
  struct ibv_recv_wr recv {};
  recv.sg_list = sges;
  recv.num_sge = 3;
  EXPECT_EQ(post(p.qa.get(), recv), EINVAL);
  recv.num_sge = -1;
  EXPECT_EQ(post(p.qa.get(), recv), EINVAL);
}

TEST_F(MisusePosting, InlineLimit) {
  ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 64)), 0);
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  ASSERT_EQ(v().ibv_query_qp(p.qa.get(), &attr, 0, &init), 0);
  sge.length = init.cap.max_inline_data + 1;
  EXPECT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, IBV_SEND_INLINE)), EINVAL);
  sge.length = init.cap.max_inline_data;
  EXPECT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, IBV_SEND_INLINE | IBV_SEND_SIGNALED)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
}

TEST_F(MisusePosting, AtomicsNeedEightBytesOnAnAlignedAddress) {
  struct ibv_send_wr wr = send_wr(1, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
  wr.wr.atomic.remote_addr = p.b.address(4);
  wr.wr.atomic.rkey = p.b.mr->rkey;
  EXPECT_EQ(post(p.qa.get(), wr), EINVAL);
  wr.wr.atomic.remote_addr = p.b.address(8);
  sge.length = 4;
  EXPECT_EQ(post(p.qa.get(), wr), EINVAL);
  sge.length = 8;
  EXPECT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
}

TEST_F(MisusePosting, FullQueues) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  ASSERT_EQ(v().ibv_query_qp(p.qa.get(), &attr, 0, &init), 0);
  ASSERT_EQ(set_state(p.qa.get(), IBV_QPS_SQD), 0);  // Takes posts, sends nothing.
  std::uint32_t sends = 0, recvs = 0;
  int send_error = 0, recv_error = 0;
  while ((send_error = post(p.qa.get(), send_wr(sends, IBV_WR_SEND, &sge))) == 0) ++sends;
  while ((recv_error = post_recv(p.qa.get(), recvs, sge)) == 0) ++recvs;
  EXPECT_EQ(send_error, ENOMEM);
  EXPECT_EQ(recv_error, ENOMEM);
  EXPECT_EQ(sends, init.cap.max_send_wr);
  EXPECT_EQ(recvs, init.cap.max_recv_wr);
}

TEST_F(MisusePosting, ListStopsAtTheFirstBadWr) {
  struct ibv_send_wr wrs[3];
  for (std::uint64_t i = 0; i < 3; ++i) {
    wrs[i] = send_wr(i, IBV_WR_RDMA_WRITE, &sge);
    wrs[i].wr.rdma.remote_addr = p.b.address();
    wrs[i].wr.rdma.rkey = p.b.mr->rkey;
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
  }
  struct ibv_sge many[3] = {sge, sge, sge};
  wrs[1].sg_list = many;
  wrs[1].num_sge = 3;
  struct ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(p.qa.get(), &wrs[0], &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(wait_completion(p.a.send_cq).wr_id, 0u);
  expect_no_completion(p.a.send_cq);
  struct ibv_recv_wr recvs[2]{};
  recvs[0].next = &recvs[1];
  recvs[1].sg_list = many;
  recvs[1].num_sge = 3;
  struct ibv_recv_wr* bad_recv = nullptr;
  EXPECT_EQ(ibv_post_recv(p.qa.get(), &recvs[0], &bad_recv), EINVAL);
  EXPECT_EQ(bad_recv, &recvs[1]);
}

TEST_F(MisusePosting, UnsupportedVerbsSaySo) {
  struct ibv_xrcd_init_attr xrcd {};
  EXPECT_EQ(ibv_open_xrcd(p.a.context.get(), &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// --- Failures that are completions --------------------------------------------------------------------------------

TEST_F(MisusePosting, WrongLocalKeyFailsTheRequest) {
  sge.lkey ^= 1;
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, 0)), 0);
  const struct ibv_wc wc = wait_completion(p.a.send_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR) << "and that although it was not signalled";
  EXPECT_EQ(wc.wr_id, 1u);
}

TEST_F(MisusePosting, MessageLongerThanTheReceive) {
  ASSERT_EQ(post_recv(p.qb.get(), 2, p.b.sge(0, 7)), 0);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(MisusePosting, NobodyAtTheOtherEnd) {
  ConnectOptions quick;
  quick.timeout = 1;
  quick.retry_cnt = 1;
  const QpPtr lonely = p.a.make_qp();
  bring_to(lonely.get(), IBV_QPS_RTS, p.b.gid(), 0xFFFF0, quick);
  ASSERT_EQ(post(lonely.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  ASSERT_EQ(post(lonely.get(), send_wr(2, IBV_WR_SEND, &sge, 0)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_RETRY_EXC_ERR);
  const struct ibv_wc flushed = wait_completion(p.a.send_cq);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 2u);
}

// A timeout that no program could keep is raised to one that a loaded machine can.
TEST_F(MisusePosting, AckTimeoutsHaveAFloor) {
  ConnectOptions quick;
  quick.timeout = 1;  // 8 us.
  quick.retry_cnt = 2;
  const QpPtr lonely = p.a.make_qp();
  bring_to(lonely.get(), IBV_QPS_RTS, p.b.gid(), 0xFFFF0, quick);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(post(lonely.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3 * 4));
  // On a busy machine it takes so long anyway.
  const NicLock lock(*context_of(p.a.context.get()).adapter);
  EXPECT_EQ(lock->config().ack_timeout_floor, nic::kAckTimeoutFloor);
}

TEST_F(MisusePosting, NoReceiveAtTheOtherEnd) {
  Pair quick({.rnr_retry = 1});
  struct ibv_sge from = quick.a.sge(0, 8);
  ASSERT_EQ(post(quick.qa.get(), send_wr(1, IBV_WR_SEND, &from)), 0);
  EXPECT_EQ(wait_completion(quick.a.send_cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace uroce::ibv::test
