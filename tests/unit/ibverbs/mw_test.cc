// SPDX-License-Identifier: Apache-2.0
// Memory windows through the verbs: a peer gets access to a part of a region, and loses it again.
#include <bit>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
constexpr std::size_t kAt = 8192;

class Windows : public testing::Test {
 protected:
  ~Windows() override {
    if (mw != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    }
  }
  void alloc(enum ibv_mw_type type) {
    mw = ibv_alloc_mw(p.b.pd, type);
    ASSERT_NE(mw, nullptr) << last_error();
  }
  struct ibv_mw_bind_info info() const {
    return {p.b.mr, p.b.address(kAt), 4096, IBV_ACCESS_REMOTE_WRITE};
  }
  void bind2() {
    struct ibv_send_wr wr = send_wr(1, IBV_WR_BIND_MW, nullptr);
    wr.num_sge = 0;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = info();
    ASSERT_EQ(post(p.qb.get(), wr), 0);
    const struct ibv_wc wc = wait_completion(p.b.send_cq);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
    mw->rkey = wr.bind_mw.rkey;
  }
  /// A's WRITE through the window.
  enum ibv_wc_status write(std::uint32_t rkey) {
    p.a.memory[0] = 0x77;
    struct ibv_sge sge = p.a.sge(0, 8);
    struct ibv_send_wr wr = send_wr(5, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma.remote_addr = p.b.address(kAt);
    wr.wr.rdma.rkey = rkey;
    EXPECT_EQ(post(p.qa.get(), wr), 0);
    return wait_completion(p.a.send_cq).status;
  }

  Pair p{{}, {}, {.access = kBindable}};
  struct ibv_mw* mw = nullptr;
};

TEST_F(Windows, Type1) {
  alloc(IBV_MW_TYPE_1);
  EXPECT_EQ(mw->type, IBV_MW_TYPE_1);
  EXPECT_EQ(mw->pd, p.b.pd);
  const std::uint32_t before = mw->rkey;
  struct ibv_mw_bind bind {
    1, IBV_SEND_SIGNALED, info()
  };
  ASSERT_EQ(ibv_bind_mw(p.qb.get(), mw, &bind), 0);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
  EXPECT_EQ(wait_completion(p.b.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey), IBV_WC_SUCCESS);
  p.b.sync();
  EXPECT_EQ(p.b.memory[kAt], 0x77);
  EXPECT_EQ(write(before), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, Type1IsBoundByItsOwnVerbOnly) {
  alloc(IBV_MW_TYPE_1);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_BIND_MW, nullptr);
  wr.num_sge = 0;
  wr.bind_mw.mw = mw;
  wr.bind_mw.bind_info = info();
  EXPECT_EQ(post(p.qb.get(), wr), EINVAL);
  wr.bind_mw.mw = nullptr;
  EXPECT_EQ(post(p.qb.get(), wr), EINVAL);
}

TEST_F(Windows, Type1Refusals) {
  alloc(IBV_MW_TYPE_1);
  struct ibv_mw_bind bind {
    1, IBV_SEND_SIGNALED, info()
  };
  bind.bind_info.mr = nullptr;
  EXPECT_EQ(ibv_bind_mw(p.qb.get(), mw, &bind), EINVAL);
  bind.bind_info = info();
  bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
  EXPECT_EQ(ibv_bind_mw(p.qb.get(), mw, &bind), EINVAL);
}

TEST_F(Windows, Type2IsTakenBackByItsOwner) {
  alloc(IBV_MW_TYPE_2);
  bind2();
  EXPECT_EQ(write(mw->rkey), IBV_WC_SUCCESS);
  struct ibv_send_wr wr = send_wr(2, IBV_WR_LOCAL_INV, nullptr);
  wr.num_sge = 0;
  wr.invalidate_rkey = mw->rkey;
  ASSERT_EQ(post(p.qb.get(), wr), 0);
  const struct ibv_wc wc = wait_completion(p.b.send_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, Type2IsTakenBackByItsPeer) {
  alloc(IBV_MW_TYPE_2);
  bind2();
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(0, 64)), 0);
  struct ibv_sge sge = p.a.sge(0, 8);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND_WITH_INV, &sge);
  wr.invalidate_rkey = mw->rkey;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  const struct ibv_wc wc = wait_completion(p.b.recv_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_INV));
  EXPECT_EQ(wc.invalidated_rkey, mw->rkey);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, GoesWhileItIsBound) {
  alloc(IBV_MW_TYPE_2);
  bind2();
  EXPECT_EQ(v().ibv_dereg_mr(p.b.mr), EBUSY);
  const std::uint32_t rkey = mw->rkey;
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);
  mw = nullptr;
  EXPECT_EQ(write(rkey), IBV_WC_REM_ACCESS_ERR);
}

// The window of a bind that waits in the queue may go before it is executed.
TEST_F(Windows, GoesBeforeItsBind) {
  alloc(IBV_MW_TYPE_2);
  ASSERT_EQ(set_state(p.qb.get(), IBV_QPS_SQD), 0);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_BIND_MW, nullptr);
  wr.num_sge = 0;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = info();
  ASSERT_EQ(post(p.qb.get(), wr), 0);
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);
  mw = nullptr;
  ASSERT_EQ(set_state(p.qb.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(wait_completion(p.b.send_cq).status, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, Types) {
  for (const int type : {0, 3, -1}) {
    enum ibv_mw_type odd {};
    set_raw(odd, type);
    errno = 0;
    EXPECT_EQ(p.b.context->ops.alloc_mw(p.b.pd, odd), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(Windows, TheDeviceTells) {
  struct ibv_device_attr attr {};
  ASSERT_EQ(v().ibv_query_device(p.b.context.get(), &attr), 0);
  EXPECT_GT(attr.max_mw, 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, 0u);  // SPDK sends with invalidate only then.
  EXPECT_EQ(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
}

// What a program leaves behind goes with its context, bound or not.
TEST(WindowLeftBehind, ClosingTheDeviceDestroysIt) {
  const ContextPtr context = open_device(0);
  ASSERT_NE(ibv_alloc_mw(v().ibv_alloc_pd(context.get()), IBV_MW_TYPE_2), nullptr);
}

}  // namespace
}  // namespace uroce::ibv::test
