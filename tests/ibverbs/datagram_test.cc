// UC and UD queue pairs, and address handles.
#include <arpa/inet.h>

#include <cerrno>

#include "tests/ibverbs/support.h"
#include "verbs/ibverbs/impl.h"

namespace uroce::ibv::test {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr struct ibv_qp_cap kCap{64, 64, 16, 16, 256};

struct Uc : testing::Test {
  Node a{0}, b{1};
  QpPtr qa = a.make_qp(kCap, false, IBV_QPT_UC), qb = b.make_qp(kCap, false, IBV_QPT_UC);
  Uc() {
    bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num);
    bring_to(qb.get(), IBV_QPS_RTS, a.gid(), qa->qp_num);
  }
};

TEST_F(Uc, SendOfManyPackets) {
  constexpr std::uint32_t kLength = 20'000;
  for (std::uint32_t i = 0; i < kLength; ++i) a.memory[i] = static_cast<std::uint8_t>(i * 7 >> 3);
  ASSERT_EQ(post_recv(qb.get(), 5, b.sge(0, kLength)), 0);
  struct ibv_sge sge = a.sge(0, kLength);
  struct ibv_send_wr wr = send_wr(4, IBV_WR_SEND_WITH_IMM, &sge);
  wr.imm_data = htonl(77);
  ASSERT_EQ(post(qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(a.send_cq).wr_id, 4u);
  const struct ibv_wc wc = wait_completion(b.recv_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.byte_len, kLength);
  EXPECT_EQ(ntohl(wc.imm_data), 77u);
  b.sync();
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + kLength, b.memory.begin()));
}

TEST_F(Uc, WriteWithImmediate) {
  a.memory[0] = 0x5A;
  ASSERT_EQ(post_recv(qb.get(), 5, b.sge(0, 0)), 0);
  struct ibv_sge sge = a.sge(0, 3000);
  struct ibv_send_wr wr = send_wr(4, IBV_WR_RDMA_WRITE_WITH_IMM, &sge);
  wr.wr.rdma.remote_addr = b.address(100);
  wr.wr.rdma.rkey = b.mr->rkey;
  ASSERT_EQ(post(qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(a.send_cq).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(wait_completion(b.recv_cq).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  b.sync();
  EXPECT_EQ(b.memory[100], 0x5A);
}

TEST_F(Uc, AFailedSendIsQueriedAsSqe) {
  struct ibv_sge sge = a.sge(0, 8);
  sge.lkey = 1;
  ASSERT_EQ(post(qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(qa.get()), IBV_QPS_SQE);
  EXPECT_EQ(set_state(qa.get(), IBV_QPS_RTS), 0);
  sge = a.sge(0, 8);
  ASSERT_EQ(post(qa.get(), send_wr(2, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
}

struct DestroyAh {
  void operator()(struct ibv_ah* ah) const { EXPECT_EQ(impl::ibv_destroy_ah(ah), 0); }
};
using AhPtr = std::unique_ptr<struct ibv_ah, DestroyAh>;

struct ibv_ah_attr to(const union ibv_gid& gid) {
  struct ibv_ah_attr attr {};
  attr.is_global = attr.port_num = attr.grh.sgid_index = 1;
  attr.grh.dgid = gid;
  return attr;
}

struct Ud : testing::Test {
  Node a{0}, b{1};
  QpPtr qa = a.make_qp(kCap, false, IBV_QPT_UD), qb = b.make_qp(kCap, false, IBV_QPT_UD);
  AhPtr to_b;
  Ud() {
    bring_to(qa.get(), IBV_QPS_RTS, {}, 0);
    bring_to(qb.get(), IBV_QPS_RTS, {}, 0);
    struct ibv_ah_attr attr = to(b.gid());
    attr.grh.traffic_class = 0x68;
    to_b.reset(impl::ibv_create_ah(a.pd, &attr));
    EXPECT_NE(to_b, nullptr) << last_error();
  }
  static struct ibv_send_wr wr(struct ibv_sge* sge, struct ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey = kQkey) {
    struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, sge);
    wr.wr.ud = {ah, qpn, qkey};
    return wr;
  }
};

// What a server of datagrams does: it answers where the request came from.
TEST_F(Ud, AnAnswerByTheGrh) {
  ASSERT_EQ(post_recv(qb.get(), 7, b.sge(0, 200)), 0);
  struct ibv_sge sge = a.sge(500, 100);
  a.memory[500] = 0x11;
  ASSERT_EQ(post(qa.get(), wr(&sge, to_b.get(), qb->qp_num)), 0);
  EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
  struct ibv_wc wc = wait_completion(b.recv_cq);
  EXPECT_EQ(wc.byte_len, kGrh + 100);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_GRH));
  EXPECT_EQ(wc.src_qp, qa->qp_num);
  b.sync();
  EXPECT_EQ(b.memory[kGrh], 0x11);

  struct ibv_grh grh {};
  std::memcpy(&grh, b.memory.data(), sizeof grh);
  struct ibv_ah_attr attr {};
  ASSERT_EQ(impl::ibv_init_ah_from_wc(b.context.get(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.grh.traffic_class, 0x68);
  EXPECT_EQ(attr.grh.hop_limit, 64);
  const union ibv_gid from = a.gid();
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, from.raw, sizeof from.raw), 0);

  const AhPtr back(impl::ibv_create_ah_from_wc(b.pd, &wc, &grh, 1));
  ASSERT_NE(back, nullptr) << last_error();
  ASSERT_EQ(post_recv(qa.get(), 8, a.sge(0, 200)), 0);
  struct ibv_sge answer = b.sge(0, 10);
  ASSERT_EQ(post(qb.get(), wr(&answer, back.get(), wc.src_qp)), 0);
  EXPECT_EQ(wait_completion(a.recv_cq).byte_len, kGrh + 10);
  EXPECT_EQ(wait_completion(b.send_cq).status, IBV_WC_SUCCESS);
}

TEST_F(Ud, ItsAttributesAreQueried) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  ASSERT_EQ(v().ibv_query_qp(qa.get(), &attr, IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qkey, kQkey);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
}

TEST_F(Ud, ThePdIsInUseAsLongAsAHandleIs) {
  struct ibv_pd* pd = v().ibv_alloc_pd(a.context.get());
  struct ibv_ah_attr attr = to(b.gid());
  AhPtr ah(impl::ibv_create_ah(pd, &attr));
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ah->pd, pd);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), EBUSY);
  ah.reset();
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

TEST_F(Ud, WrongHandles) {
  const auto error_of = [&](auto change) {
    struct ibv_ah_attr attr = to(b.gid());
    change(attr);
    errno = 0;
    const AhPtr ah(impl::ibv_create_ah(a.pd, &attr));
    return ah == nullptr ? errno : 0;
  };
  EXPECT_EQ(error_of([](struct ibv_ah_attr&) {}), 0);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.is_global = 0; }), EINVAL);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.port_num = 0; }), EINVAL);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.port_num = 2; }), EINVAL);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.grh.sgid_index = 9; }), ENODATA);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.grh.sgid_index = 0; }), ENODATA) << "link-local";
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.grh.dgid = {}; }), EINVAL);
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.grh.dgid.raw[0] = 0xFD; }), EINVAL) << "of another IP version";
}

TEST_F(Ud, NoHandleWithoutAGrhOfOurs) {
  struct ibv_wc wc {};
  struct ibv_grh grh {};
  struct ibv_ah_attr attr {};
  EXPECT_EQ(impl::ibv_init_ah_from_wc(b.context.get(), 1, &wc, &grh, &attr), 0) << "as for InfiniBand";
  EXPECT_EQ(attr.is_global, 0);
  wc.wc_flags = IBV_WC_GRH;
  errno = 0;
  EXPECT_EQ(impl::ibv_init_ah_from_wc(b.context.get(), 1, &wc, &grh, &attr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(impl::ibv_create_ah_from_wc(b.pd, &wc, &grh, 1), nullptr);
}

// Real programs close the device and let the rest be destroyed with it.
TEST(UdContext, TakesItsHandlesWithIt) {
  struct ibv_context* context = open_device(0).release();
  struct ibv_pd* pd = v().ibv_alloc_pd(context);
  union ibv_gid gid {};
  ASSERT_EQ(v().ibv_query_gid(context, 1, 1, &gid), 0);
  struct ibv_ah_attr attr = to(gid);
  ASSERT_NE(impl::ibv_create_ah(pd, &attr), nullptr);
  EXPECT_EQ(v().ibv_close_device(context), 0);
}

}  // namespace
}  // namespace uroce::ibv::test
