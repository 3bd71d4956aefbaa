// SPDX-License-Identifier: Apache-2.0
// Registered memory that is unmapped or protected: what touches it fails, and nobody dies. For every kind of region, in
// both directions.
#include "tests/unit/ibverbs/lost_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::test {
namespace {

using Loss = TwoPages::Loss;
constexpr struct ibv_qp_cap kQpSize { 64, 64, 16, 16, 256 };

enum class Kind : std::uint8_t { kPlain, kOnDemand, kImplicit, kWindow };

/// A region of some kind over `pages`.
class Region {
 public:
  Region(Kind kind, const Node& node, struct ibv_qp* qp, const TwoPages& pages) {
    const bool implicit = kind == Kind::kImplicit;
    const int more = kind == Kind::kWindow                 ? IBV_ACCESS_MW_BIND
                     : kind == Kind::kOnDemand || implicit ? IBV_ACCESS_ON_DEMAND
                                                           : 0;
    mr_ =
        v().ibv_reg_mr(node.pd, implicit ? nullptr : pages.data(), implicit ? SIZE_MAX : 2 * kPage, kEveryRight | more);
    EXPECT_NE(mr_, nullptr) << last_error();
    if (kind != Kind::kWindow) return;
    mw_ = ibv_alloc_mw(node.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind {
      1, IBV_SEND_SIGNALED, { mr_, pages.address(), 2 * kPage, kEveryRight & ~IBV_ACCESS_LOCAL_WRITE }
    };
    EXPECT_EQ(ibv_bind_mw(qp, mw_, &bind), 0);
    EXPECT_EQ(wait_completion(node.send_cq).status, IBV_WC_SUCCESS);
  }
  ~Region() {
    if (mw_ != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(mw_), 0);
    }
    EXPECT_EQ(v().ibv_dereg_mr(mr_), 0);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::uint32_t rkey() const { return mw_ != nullptr ? mw_->rkey : mr_->rkey; }
  std::uint32_t lkey() const { return mr_->lkey; }

 private:
  struct ibv_mr* mr_ = nullptr;
  struct ibv_mw* mw_ = nullptr;
};

struct Row {
  const char* name;
  enum ibv_wr_opcode opcode;
  std::size_t from;  ///< Offset of the first byte; the second page is gone.
  std::uint32_t length;
  bool writes;
};
constexpr Row kRemote[] = {
    {"Write", IBV_WR_RDMA_WRITE, kPage + 8, 8, true},
    {"LongWrite", IBV_WR_RDMA_WRITE, 100, 6000, true},
    {"WriteAcrossTheEdge", IBV_WR_RDMA_WRITE, kPage - 100, 1000, true},
    {"WriteWithImmediate", IBV_WR_RDMA_WRITE_WITH_IMM, kPage, 700, true},
    {"Read", IBV_WR_RDMA_READ, kPage + 1, 33, false},
    {"LongRead", IBV_WR_RDMA_READ, 100, 6000, false},
    {"FetchAndAdd", IBV_WR_ATOMIC_FETCH_AND_ADD, kPage, 8, true},
    {"CompareAndSwap", IBV_WR_ATOMIC_CMP_AND_SWP, kPage + 16, 8, true},
    {"AtomicWrite", IBV_WR_ATOMIC_WRITE, kPage + 24, 8, true},
};
constexpr Row kLocalRows[] = {
    {"Send", IBV_WR_SEND, kPage, 8, false},
    {"LongSend", IBV_WR_SEND, 100, 6000, false},
    {"Write", IBV_WR_RDMA_WRITE, kPage - 1, 2, false},
    {"Read", IBV_WR_RDMA_READ, kPage, 40, true},
    {"LongRead", IBV_WR_RDMA_READ, 100, 6000, true},
    {"FetchAndAdd", IBV_WR_ATOMIC_FETCH_AND_ADD, kPage, 8, true},
};
constexpr std::pair<Kind, const char*> kKinds[] = {
    {Kind::kPlain, "plain"}, {Kind::kOnDemand, "on demand"}, {Kind::kImplicit, "implicit"}, {Kind::kWindow, "window"}};
constexpr std::pair<Loss, const char*> kLosses[] = {
    {Loss::kUnmapped, "unmapped"}, {Loss::kNoAccess, "PROT_NONE"}, {Loss::kReadOnly, "PROT_READ"}};

TEST(LostMemory, WhatAPeerAsksOfItIsARemoteOperationalError) {
  for (const auto& [kind, kind_name] : kKinds) {
    for (const auto& [loss, loss_name] : kLosses) {
      for (const Row& row : kRemote) {
        SCOPED_TRACE(std::string(kind_name) + ", " + loss_name + ", " + row.name);
        Pair p;
        const TwoPages pages;
        const Region region(kind, p.b, p.qb.get(), pages);
        ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, 0)), 0);
        pages.lose(loss);
        struct ibv_sge sge = p.a.sge(0, row.length);
        ASSERT_EQ(post(p.qa.get(), remote_wr(row.opcode, &sge, pages.address(row.from), region.rkey())), 0);
        const bool harmless = loss == Loss::kReadOnly && !row.writes;
        ASSERT_EQ(wait_completion(p.a.send_cq).status, harmless ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
        if (harmless) continue;
        EXPECT_EQ(state_of(p.qb.get()), IBV_QPS_ERR);
        EXPECT_EQ(next_async_event(p.b.context.get()), IBV_EVENT_QP_FATAL);
      }
    }
  }
}

TEST(LostMemory, WhatAListOfOursNamesIsALocalProtectionError) {
  for (const auto& [kind, kind_name] : kKinds) {
    if (kind == Kind::kWindow) continue;  // Windows are for peers.
    for (const auto& [loss, loss_name] : kLosses) {
      for (const Row& row : kLocalRows) {
        SCOPED_TRACE(std::string(kind_name) + ", " + loss_name + ", " + row.name);
        Pair p;
        const TwoPages pages;
        const Region region(kind, p.a, p.qa.get(), pages);
        if (row.opcode == IBV_WR_SEND) {
          ASSERT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, row.length)), 0);
        }
        pages.lose(loss);
        struct ibv_sge sge {
          pages.address(row.from), row.length, region.lkey()
        };
        ASSERT_EQ(post(p.qa.get(), remote_wr(row.opcode, &sge, p.b.address(), p.b.mr->rkey)), 0);
        const bool harmless = loss == Loss::kReadOnly && !row.writes;
        ASSERT_EQ(wait_completion(p.a.send_cq).status, harmless ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
      }
    }
  }
}

TEST(LostMemory, AReceiveIntoItFailsOnBothSides) {
  for (const auto& [kind, kind_name] : kKinds) {
    if (kind == Kind::kWindow) continue;
    SCOPED_TRACE(kind_name);
    Pair p;
    const TwoPages pages;
    const Region region(kind, p.b, p.qb.get(), pages);
    ASSERT_EQ(post_recv(p.qb.get(), 1, {pages.address(), 2 * kPage, region.lkey()}), 0);
    pages.lose();
    struct ibv_sge sge = p.a.sge(0, 6000);
    ASSERT_EQ(post(p.qa.get(), send_wr(7, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_LOC_PROT_ERR);
  }
}

struct LostMemoryUnreliable : testing::Test {
  Node a{0}, b{1};
  TwoPages pages;
  Region ours{Kind::kPlain, a, nullptr, pages}, theirs{Kind::kPlain, b, nullptr, pages};
};

TEST_F(LostMemoryUnreliable, ConnectedReceivesAndSendsFail) {
  QpPtr qa = a.make_qp(kQpSize, false, IBV_QPT_UC), qb = b.make_qp(kQpSize, false, IBV_QPT_UC);
  bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num);
  bring_to(qb.get(), IBV_QPS_RTS, a.gid(), qa->qp_num);
  ASSERT_EQ(post_recv(qb.get(), 1, {pages.address(), 2 * kPage, theirs.lkey()}), 0);
  pages.lose();
  // A WRITE is lost without a word, as all that UC can't take.
  struct ibv_sge sge = a.sge(0, 6000);
  ASSERT_EQ(post(qa.get(), remote_wr(IBV_WR_RDMA_WRITE, &sge, pages.address(), theirs.rkey())), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
  ASSERT_EQ(post(qa.get(), send_wr(7, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(b.recv_cq).status, IBV_WC_LOC_PROT_ERR);
  struct ibv_sge lost {
    pages.address(), 6000, ours.lkey()
  };
  ASSERT_EQ(post(qa.get(), send_wr(8, IBV_WR_SEND, &lost)), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(LostMemoryUnreliable, DatagramReceivesAndSendsFail) {
  QpPtr qa = a.make_qp(kQpSize, false, IBV_QPT_UD), qb = b.make_qp(kQpSize, false, IBV_QPT_UD);
  bring_to(qa.get(), IBV_QPS_RTS, {}, 0);
  bring_to(qb.get(), IBV_QPS_RTS, {}, 0);
  struct ibv_ah_attr attr = rtr_attr(b.gid(), 0).ah_attr;
  struct ibv_ah* const ah = impl::ibv_create_ah(a.pd, &attr);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_recv(qb.get(), 1, {pages.address(kPage), kPage, theirs.lkey()}), 0);
  pages.lose();
  const auto send = [&](struct ibv_sge sge) {
    struct ibv_send_wr wr = send_wr(7, IBV_WR_SEND, &sge);
    wr.wr.ud = {ah, qb->qp_num, kQkey};
    EXPECT_EQ(post(qa.get(), wr), 0);
    return wait_completion(a.send_cq).status;
  };
  EXPECT_EQ(send(a.sge(0, 100)), IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(b.recv_cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(send({pages.address(kPage), 100, ours.lkey()}), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(impl::ibv_destroy_ah(ah), 0);
}

TEST(LostMemory, AFileThatShrankIsAsGood) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::tmpfile(), &std::fclose);
  ASSERT_EQ(ftruncate(fileno(file.get()), kPage), 0);
  void* const memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file.get()), 0);
  ASSERT_NE(memory, MAP_FAILED);
  Pair p;
  struct ibv_mr* const mr = v().ibv_reg_mr(p.b.pd, memory, kPage, kEveryRight);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(ftruncate(fileno(file.get()), 0), 0);  // SIGBUS.
  struct ibv_sge sge = p.a.sge(0, 8);
  ASSERT_EQ(post(p.qa.get(), remote_wr(IBV_WR_RDMA_WRITE, &sge, reinterpret_cast<std::uintptr_t>(memory), mr->rkey)),
            0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(munmap(memory, kPage), 0);
}

TEST(LostMemory, NoAddressOfAnImplicitRegionKills) {
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{1} << 47, std::uint64_t{1} << 63,
                                      std::uint64_t{0xFFFF'8000'0000'0000}, ~std::uint64_t{0} - 4095}) {
    SCOPED_TRACE(address);
    Pair p;
    struct ibv_mr* const all = v().ibv_reg_mr(p.b.pd, nullptr, SIZE_MAX, kEveryRight | IBV_ACCESS_ON_DEMAND);
    ASSERT_NE(all, nullptr);
    struct ibv_sge sge = p.a.sge(0, 8);
    ASSERT_EQ(post(p.qa.get(), remote_wr(IBV_WR_RDMA_WRITE, &sge, address, all->rkey)), 0);
    EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(v().ibv_dereg_mr(all), 0);
  }
}

/// Memory comes and goes as fast as it can while both sides use it.
class Storm {
 public:
  explicit Storm(Kind kind)
      : ours_(kind, a_, nullptr, pages_), theirs_(kind, b_, nullptr, pages_), remapper_([this] { remap(); }) {}
  ~Storm() {
    over_ = true;
    remapper_.join();
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  /// `count` operations of one kind, or as many as go well; the memory that goes is the peer's, or ours. Returns
  /// whether all went well.
  bool operate(enum ibv_wr_opcode opcode, bool at_peer, int count) {
    const QpPtr qa = a_.make_qp(), qb = b_.make_qp();
    // On a busy machine the peer may wait long for memory that somebody maps all the time.
    ConnectOptions patient;
    patient.timeout = 18;
    bring_to(qa.get(), IBV_QPS_RTS, b_.gid(), qb->qp_num, patient);
    bring_to(qb.get(), IBV_QPS_RTS, a_.gid(), qa->qp_num, patient);
    const std::uint32_t length = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ ? 2000 : 8;
    const struct ibv_sge ours { pages_.address(kPage), length, ours_.lkey() };
    const struct ibv_sge receive { pages_.address(kPage), length, theirs_.lkey() };
    bool well = true;
    for (int i = 0; i < count && well; ++i) {
      if (opcode == IBV_WR_SEND) {
        EXPECT_EQ(post_recv(qb.get(), 1, at_peer ? receive : b_.sge(0, length)), 0);
      }
      struct ibv_sge sge = at_peer ? a_.sge(0, length) : ours;
      EXPECT_EQ(post(qa.get(), at_peer ? remote_wr(opcode, &sge, pages_.address(kPage), theirs_.rkey())
                                       : remote_wr(opcode, &sge, b_.address(), b_.mr->rkey)),
                0);
      const enum ibv_wc_status status = wait_completion(a_.send_cq).status;
      if (opcode == IBV_WR_SEND && at_peer) wait_completion(b_.recv_cq);
      well = status == IBV_WC_SUCCESS;
      EXPECT_EQ(status, well ? IBV_WC_SUCCESS : at_peer ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR);
    }
    return well;
  }

 private:
  void remap() {
    for (bool by_memory = false; !over_; by_memory = !by_memory) pages_.replace(by_memory);
  }

  Node a_{0}, b_{1};
  TwoPages pages_;
  Region ours_, theirs_;
  std::atomic<bool> over_ = false;
  std::thread remapper_;
};

void survive_storm(Kind kind) {
  constexpr enum ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                             IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND};
  Storm storm(kind);
  int failed = 0;
  for (int round = 0; round < 50; ++round) {
    for (const enum ibv_wr_opcode opcode : kOpcodes) {
      for (const bool at_peer : {true, false}) {
        if (!storm.operate(opcode, at_peer, 20)) ++failed;
      }
    }
  }
  EXPECT_GT(failed, 0) << "nothing ever met a hole";
}

TEST(LostMemory, PlainRegionsOutliveAThreadThatRemaps) { survive_storm(Kind::kPlain); }
TEST(LostMemory, OnDemandRegionsOutliveAThreadThatRemaps) { survive_storm(Kind::kOnDemand); }

}  // namespace
}  // namespace uroce::ibv::test
