// SPDX-License-Identifier: Apache-2.0
// Extended QPs: WRs built with ibv_wr_*.
#include <numeric>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/newer.h"

namespace uroce::ibv::test {
namespace {

constexpr std::uint64_t kAllOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                                  IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                  IBV_QP_EX_WITH_ATOMIC_WRITE | newer::kQpExWithFlush;

struct ibv_qp* create(struct ibv_context* context, struct ibv_qp_init_attr_ex& init) {
  return verbs_get_ctx(context)->create_qp_ex(context, &init);
}

class Builder : public testing::Test {
 protected:
  Builder() {
    std::iota(p.a.memory.begin(), p.a.memory.end(), std::uint8_t{1});
    struct ibv_qp_init_attr_ex init = attr(kAllOps);
    qp.reset(create(p.a.context.get(), init));
    x = impl::ibv_qp_to_qp_ex(qp.get());
    other = p.b.make_qp();
    bring_to(qp.get(), IBV_QPS_RTS, p.b.gid(), other->qp_num);
    ConnectOptions options;
    options.qp_access |= static_cast<int>(newer::kAccessFlushGlobal | newer::kAccessFlushPersistent);
    bring_to(other.get(), IBV_QPS_RTS, p.a.gid(), qp->qp_num, options);
  }
  struct ibv_qp_init_attr_ex attr(std::uint64_t ops) const {
    struct ibv_qp_init_attr_ex init {};
    init.send_cq = p.a.send_cq;
    init.recv_cq = p.a.recv_cq;
    init.cap = {8, 8, 4, 4, 64};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = p.a.pd;
    init.send_ops_flags = ops;
    return init;
  }
  void begin(std::uint64_t wr_id, unsigned int flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x);
    x->wr_id = wr_id;
    x->wr_flags = flags;
  }
  void sge(std::size_t offset, std::uint32_t length) { ibv_wr_set_sge(x, p.a.mr->lkey, p.a.address(offset), length); }
  void expect_sent(std::uint64_t wr_id, enum ibv_wc_opcode opcode) {
    const struct ibv_wc wc = wait_completion(p.a.send_cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << v().ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.opcode, opcode);
  }
  void expect_nothing_posted(int error) {
    EXPECT_EQ(ibv_wr_complete(x), error);
    expect_no_completion(p.a.send_cq);
    // The next list is not hurt by that.
    begin(77);
    ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
    sge(0, 4);
    EXPECT_EQ(ibv_wr_complete(x), 0);
    expect_sent(77, IBV_WC_RDMA_WRITE);
  }

  Pair p;
  QpPtr qp, other;
  struct ibv_qp_ex* x = nullptr;
};

TEST_F(Builder, EveryOperation) {
  std::uint64_t& word = *reinterpret_cast<std::uint64_t*>(p.b.memory.data() + 512);
  word = 40;
  ASSERT_EQ(post_recv(other.get(), 1, p.b.sge(4096, 100)), 0);
  ASSERT_EQ(post_recv(other.get(), 2, p.b.sge(8192, 100)), 0);
  ASSERT_EQ(post_recv(other.get(), 3, p.b.sge(8192, 0)), 0);
  begin(1);
  ibv_wr_send(x);
  sge(0, 10);
  x->wr_id = 2;
  ibv_wr_send_imm(x, 0x11223344);
  const struct ibv_sge list[] = {p.a.sge(100, 5), p.a.sge(200, 6)};
  ibv_wr_set_sge_list(x, 2, list);
  x->wr_id = 3;
  ibv_wr_rdma_write_imm(x, p.b.mr->rkey, p.b.address(1024), 0x55);
  std::uint8_t inline_bytes[] = {9, 8, 7};
  ibv_wr_set_inline_data(x, inline_bytes, sizeof inline_bytes);
  x->wr_id = 4;
  ibv_wr_atomic_fetch_add(x, p.b.mr->rkey, p.b.address(512), 2);
  sge(65536, 8);
  x->wr_id = 5;
  ibv_wr_atomic_cmp_swp(x, p.b.mr->rkey, p.b.address(512), 42, 7);
  sge(65544, 8);
  x->wr_id = 6;
  ibv_wr_rdma_read(x, p.b.mr->rkey, p.b.address(1024));
  sge(70000, 3);
  x->wr_id = 7;
  x->wr_flags = 0;
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address(2048));
  struct ibv_data_buf buffers[] = {{inline_bytes, 2}, {inline_bytes + 2, 1}};
  ibv_wr_set_inline_data_list(x, 2, buffers);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  inline_bytes[0] = 0;  // Its value at the time of the call went.
  expect_sent(1, IBV_WC_SEND);
  expect_sent(2, IBV_WC_SEND);
  expect_sent(3, IBV_WC_RDMA_WRITE);
  expect_sent(4, IBV_WC_FETCH_ADD);
  expect_sent(5, IBV_WC_COMP_SWAP);
  expect_sent(6, IBV_WC_RDMA_READ);
  for (const std::uint64_t id : {1u, 2u, 3u}) {
    const struct ibv_wc wc = wait_completion(p.b.recv_cq);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    const __be32 imm[] = {0, 0x11223344u, 0x55u};
    EXPECT_EQ(wc.imm_data, imm[id - 1]);
    EXPECT_EQ(wc.byte_len, id == 3 ? 3u : 9 + id);
  }
  begin(8);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());  // Behind the unsignalled one.
  ASSERT_EQ(ibv_wr_complete(x), 0);
  expect_sent(8, IBV_WC_RDMA_WRITE);
  p.a.sync();
  p.b.sync();
  EXPECT_EQ(word, 7u);
  EXPECT_EQ(p.b.memory[4096 + 9], p.a.memory[9]);
  EXPECT_EQ(p.b.memory[8192 + 5], p.a.memory[200]);
  EXPECT_EQ(p.b.memory[1024], 9);
  EXPECT_EQ(p.b.memory[2050], 7);
  EXPECT_EQ(p.a.memory[70000], 9);
}

/// ibv_wr_flush() of rdma-core 45 and later, through the member that its programs find in the QP.
void wr_flush(struct ibv_qp_ex* x, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length, std::uint8_t type,
              std::uint8_t level) {
  using Flush = void (*)(struct ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t, std::uint8_t);
  Flush flush = nullptr;
  std::memcpy(&flush, reinterpret_cast<const char*>(x) + sizeof(struct ibv_qp_ex), sizeof flush);
  flush(x, rkey, remote_addr, length, type, level);
}
constexpr auto kWcFlush = static_cast<enum ibv_wc_opcode>(newer::kWcFlush);

TEST_F(Builder, AtomicWriteAndFlush) {
  const auto reg = [&](unsigned int more) {
    return v().ibv_reg_mr(p.b.pd, p.b.memory.data(), 4096, static_cast<int>(IBV_ACCESS_LOCAL_WRITE | more));
  };
  EXPECT_EQ(reg(newer::kAccessFlushPersistent), nullptr);
  EXPECT_EQ(errno, EINVAL);
  struct ibv_mr* const flushable = reg(newer::kAccessFlushGlobal);
  ASSERT_NE(flushable, nullptr);
  std::uint64_t value = 0x1122334455667788;
  begin(1);
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(512), &value);
  x->wr_id = 2;
  wr_flush(x, flushable->rkey, p.b.address(512), 8, 1, 0);
  x->wr_id = 3;
  wr_flush(x, flushable->rkey, 0, 0, 1, 1);
  x->wr_id = 4;
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(520), &value);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  value = 0;  // Its value at the time of the call went.
  expect_sent(1, IBV_WC_ATOMIC_WRITE);
  expect_sent(2, kWcFlush);
  expect_sent(3, kWcFlush);
  expect_sent(4, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(v().ibv_dereg_mr(flushable), 0);
  p.b.sync();
  for (const std::size_t at : {512u, 520u}) {
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(p.b.memory.data() + at), 0x1122334455667788u);
  }
}

TEST_F(Builder, AtomicWriteOfAnSge) {
  std::iota(p.a.memory.begin(), p.a.memory.begin() + 8, std::uint8_t{1});
  std::uint64_t unused = 0;
  begin(1);
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(512), &unused);
  sge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  expect_sent(1, IBV_WC_ATOMIC_WRITE);
  p.b.sync();
  EXPECT_EQ(p.b.memory[512], 1);
  EXPECT_EQ(p.b.memory[519], 8);
}

TEST_F(Builder, FlushOfARegionWithoutTheRight) {
  begin(1);
  wr_flush(x, p.b.mr->rkey, p.b.address(512), 8, 1, 0);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(next_async_event(p.b.context.get()), IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(Builder, FlushesThatCannotBe) {
  const auto attempt = [&](std::size_t length, int type, int level) {
    begin(1);
    wr_flush(x, p.b.mr->rkey, p.b.address(), length, static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(level));
    expect_nothing_posted(EINVAL);
  };
  attempt(8, 0, 0);
  attempt(8, 4, 0);
  attempt(8, 1, 2);
  attempt((std::size_t{1} << 31) + 1, 1, 0);
  begin(1);
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(), nullptr);
  expect_nothing_posted(EINVAL);
  begin(1);
  std::uint64_t value = 0;
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(4), &value);  // Not aligned.
  expect_nothing_posted(EINVAL);
  begin(1);
  ibv_wr_atomic_write(x, p.b.mr->rkey, p.b.address(), &value);
  sge(0, 4);
  expect_nothing_posted(EINVAL);
}

// ibv_post_send() has room for ATOMIC WRITE, and none for what a FLUSH asks for.
TEST_F(Builder, PostSend) {
  std::fill_n(p.a.memory.begin(), 8, std::uint8_t{7});
  struct ibv_sge sge = p.a.sge(0, 8);
  struct ibv_send_wr wr {};
  wr.wr_id = 1;
  wr.opcode = IBV_WR_ATOMIC_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = p.b.mr->rkey;
  wr.wr.rdma.remote_addr = p.b.address(512);
  struct ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
  expect_sent(1, IBV_WC_ATOMIC_WRITE);
  p.b.sync();
  EXPECT_EQ(p.b.memory[515], 7);
  wr.opcode = static_cast<enum ibv_wr_opcode>(newer::kWrFlush);
  wr.num_sge = 0;
  EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL);
}

TEST_F(Builder, AnOperationThatWasNotAskedFor) {
  begin(1);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
  sge(0, 4);
  ibv_wr_send_inv(x, 5);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, TheFirstMistakeIsReported) {
  begin(1);
  for (int i = 0; i < 9; ++i) {
    ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
    sge(0, 4);
  }
  ibv_wr_send_inv(x, 5);
  expect_nothing_posted(ENOMEM);
}

TEST_F(Builder, DataWithoutAnOperation) {
  begin(1);
  sge(0, 4);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, TooMuchInlineData) {
  std::uint8_t bytes[65]{};
  begin(1);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
  ibv_wr_set_inline_data(x, bytes, sizeof bytes);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, TooManySges) {
  const struct ibv_sge list[5]{};
  begin(1);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
  ibv_wr_set_sge_list(x, 5, list);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, AnAddressOnAConnectedQp) {
  begin(1);
  ibv_wr_send(x);
  ibv_wr_set_ud_addr(x, nullptr, 1, 1);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, OneBadWrKeepsAllBack) {
  begin(1);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
  sge(0, 4);
  ibv_wr_atomic_fetch_add(x, p.b.mr->rkey, p.b.address(513), 1);  // Not aligned.
  sge(0, 8);
  expect_nothing_posted(EINVAL);
}

TEST_F(Builder, MoreThanTheQueueHasRoomFor) {
  ASSERT_EQ(set_state(other.get(), IBV_QPS_ERR), 0);  // So that nothing completes soon.
  for (int i = 0; i < 2; ++i) {
    begin(1);
    for (int j = 0; j < 5; ++j) {
      ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
      sge(0, 4);
    }
    EXPECT_EQ(ibv_wr_complete(x), i == 0 ? 0 : ENOMEM);
  }
}

TEST_F(Builder, AbortedListsLeaveNothing) {
  begin(1);
  ibv_wr_send(x);
  ibv_wr_abort(x);
  expect_no_completion(p.a.send_cq);
  EXPECT_EQ(ibv_wr_complete(x), EINVAL) << "no list has begun";
  begin(2);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address());
  sge(0, 4);
  EXPECT_EQ(ibv_wr_complete(x), 0);
  expect_sent(2, IBV_WC_RDMA_WRITE);
}

TEST_F(Builder, AStateThatCannotSend) {
  const QpPtr fresh = [this] {
    auto init = attr(kAllOps);
    return QpPtr(create(p.a.context.get(), init));
  }();
  struct ibv_qp_ex* const builder = impl::ibv_qp_to_qp_ex(fresh.get());
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
}

/// The room for inline data is there, and so is that for an SGE.
TEST_F(Builder, InlineDataNeedsNoSges) {
  auto init = attr(kAllOps);
  init.cap.max_send_sge = 0;
  const QpPtr lean(create(p.a.context.get(), init));
  ASSERT_NE(lean, nullptr);
  EXPECT_EQ(init.cap.max_send_sge, 1u);
  const QpPtr peer = p.b.make_qp();
  bring_to(lean.get(), IBV_QPS_RTS, p.b.gid(), peer->qp_num);
  bring_to(peer.get(), IBV_QPS_RTS, p.a.gid(), lean->qp_num);
  x = impl::ibv_qp_to_qp_ex(lean.get());
  begin(7);
  ibv_wr_rdma_write(x, p.b.mr->rkey, p.b.address(0));
  std::uint8_t three[3] = {7, 8, 9};
  ibv_wr_set_inline_data(x, three, sizeof three);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  expect_sent(7, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(p.b.memory[2], 9);
}

TEST_F(Builder, OnlyOfQpsThatWereCreatedForIt) {
  EXPECT_EQ(impl::ibv_qp_to_qp_ex(p.qa.get()), nullptr);
  auto init = attr(0);
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  const QpPtr plain(create(p.a.context.get(), init));
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(impl::ibv_qp_to_qp_ex(plain.get()), nullptr);
}

TEST_F(Builder, RefusesWhatNoQpHas) {
  const auto refused = [this](struct ibv_qp_init_attr_ex init) {
    EXPECT_EQ(create(p.a.context.get(), init), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(attr(IBV_QP_EX_WITH_TSO)), EOPNOTSUPP);
  EXPECT_EQ(refused(attr(std::uint64_t{1} << 60)), EOPNOTSUPP);
  auto init = attr(0);
  init.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  EXPECT_EQ(refused(init), EOPNOTSUPP);
  init = attr(0);
  init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_EQ(refused(init), EOPNOTSUPP);
  init = attr(0);
  init.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  EXPECT_EQ(refused(init), EINVAL) << "no protection domain";
  init = attr(IBV_QP_EX_WITH_RDMA_READ);
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(refused(init), EOPNOTSUPP);
}

}  // namespace
}  // namespace uroce::ibv::test
