// SPDX-License-Identifier: Apache-2.0
// UC and UD queue pairs, and address handles.
#include <arpa/inet.h>

#include <cerrno>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::test {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr struct ibv_qp_cap kCap { 64, 64, 16, 16, 256 };

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

// 10.2.5, 14.2.5.6: the port counts them.
TEST_F(Ud, TheWrongQkeyIsCounted) {
  const auto counted = [this] {
    struct ibv_port_attr attr {};
    EXPECT_EQ(verbs_get_ctx(b.context.get())->query_port(b.context.get(), 1, &attr, sizeof attr), 0);
    return attr.qkey_viol_cntr;
  };
  const std::uint32_t before = counted();
  ASSERT_EQ(post_recv(qb.get(), 7, b.sge(0, 200)), 0);
  struct ibv_sge sge = a.sge(0, 8);
  ASSERT_EQ(post(qa.get(), wr(&sge, to_b.get(), qb->qp_num, kQkey + 1)), 0);
  ASSERT_EQ(post(qa.get(), wr(&sge, to_b.get(), qb->qp_num)), 0);
  EXPECT_EQ(wait_completion(b.recv_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(counted(), before + 1);
}

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
  EXPECT_EQ(wc.sl, 0xA) << "by UDP over IPv4: UCX before 1.19 looks for the addresses where this says";
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

  // Who keeps the last 20 bytes, which is what the standard defines, may have anything before them.
  struct ibv_ah_attr same {};
  std::memset(&grh, 'a', 20);
  EXPECT_EQ(impl::ibv_init_ah_from_wc(b.context.get(), 1, &wc, &grh, &same), 0) << last_error();
  EXPECT_EQ(std::memcmp(same.grh.dgid.raw, from.raw, sizeof from.raw), 0);

  const AhPtr back(impl::ibv_create_ah_from_wc(b.pd, &wc, &grh, 1));
  ASSERT_NE(back, nullptr) << last_error();
  ASSERT_EQ(post_recv(qa.get(), 8, a.sge(0, 200)), 0);
  struct ibv_sge answer = b.sge(0, 10);
  ASSERT_EQ(post(qb.get(), wr(&answer, back.get(), wc.src_qp)), 0);
  EXPECT_EQ(wait_completion(a.recv_cq).byte_len, kGrh + 10);
  EXPECT_EQ(wait_completion(b.send_cq).status, IBV_WC_SUCCESS);
}

// Many programs take index 0 unless they are told otherwise.
TEST_F(Ud, ByGid0) {
  struct ibv_ah_attr attr = to(b.gid(0));
  attr.grh.sgid_index = 0;
  const AhPtr ah(impl::ibv_create_ah(a.pd, &attr));
  ASSERT_NE(ah, nullptr) << last_error();
  ASSERT_EQ(post_recv(qb.get(), 7, b.sge(0, 200)), 0);
  struct ibv_sge sge = a.sge(500, 100);
  ASSERT_EQ(post(qa.get(), wr(&sge, ah.get(), qb->qp_num)), 0);
  struct ibv_wc wc = wait_completion(b.recv_cq);
  EXPECT_EQ(wc.byte_len, kGrh + 100);
  b.sync();
  struct ibv_grh grh {};
  std::memcpy(&grh, b.memory.data(), sizeof grh);
  ASSERT_EQ(impl::ibv_init_ah_from_wc(b.context.get(), 1, &wc, &grh, &attr), 0);
  const union ibv_gid from = a.gid(1);
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, from.raw, sizeof from.raw), 0) << "the wire has the addresses";
}

TEST_F(Ud, ItsAttributesAreQueried) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  ASSERT_EQ(v().ibv_query_qp(qa.get(), &attr, IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qkey, kQkey);
  EXPECT_EQ(init.qp_type, IBV_QPT_UD);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
}

TEST_F(Ud, ItOffersNothingButSends) {
  struct ibv_sge sge = a.sge(0, 8);
  for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                            IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    struct ibv_send_wr wr = send_wr(1, opcode, &sge);
    wr.wr.atomic.remote_addr = 0x1000;  // In all of them where a SEND has its address handle.
    EXPECT_EQ(post(qa.get(), wr), EINVAL) << opcode;
  }
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
  EXPECT_EQ(error_of([](struct ibv_ah_attr& x) { x.grh.sgid_index = 0; }), 0) << "stands for the NIC's address";
  EXPECT_EQ(error_of([&](struct ibv_ah_attr& x) { x.grh.dgid = b.gid(0); }), 0) << "that of a NIC";
  EXPECT_EQ(error_of([&](struct ibv_ah_attr& x) { (x.grh.dgid = b.gid(0)).raw[8] ^= 2; }), ETIMEDOUT) << "of nobody";
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

// --- Multicast -----------------------------------------------------------------------------------------------------

union ibv_gid ipv4_group(std::uint8_t last) {
  union ibv_gid gid {};
  gid.raw[10] = gid.raw[11] = 0xFF;
  gid.raw[12] = 239;
  gid.raw[13] = 255;
  gid.raw[15] = last;
  return gid;
}

struct Multicast : Ud {
  union ibv_gid group = ipv4_group(7);
  AhPtr to_group;
  Multicast() {
    struct ibv_ah_attr attr = to(group);
    to_group.reset(impl::ibv_create_ah(a.pd, &attr));
    EXPECT_NE(to_group, nullptr) << last_error();
  }
  void send() {
    struct ibv_sge sge = a.sge(500, 100);
    ASSERT_EQ(post(qa.get(), wr(&sge, to_group.get(), 0xFFFFFF)), 0);
    EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
  }
};

TEST_F(Multicast, EveryAttachedQpReceives) {
  const QpPtr other = b.make_qp(kCap, false, IBV_QPT_UD), stranger = b.make_qp(kCap, false, IBV_QPT_UD);
  for (struct ibv_qp* qp : {other.get(), stranger.get()}) bring_to(qp, IBV_QPS_RTS, {}, 0);
  ASSERT_EQ(impl::ibv_attach_mcast(qb.get(), &group, 0), 0) << last_error();
  ASSERT_EQ(impl::ibv_attach_mcast(other.get(), &group, 0), 0) << last_error();
  const union ibv_gid another = ipv4_group(8);
  ASSERT_EQ(impl::ibv_attach_mcast(stranger.get(), &another, 0), 0) << last_error();
  ASSERT_EQ(post_recv(qb.get(), 1, b.sge(0, 200)), 0);
  ASSERT_EQ(post_recv(other.get(), 2, b.sge(1000, 200)), 0);
  ASSERT_EQ(post_recv(stranger.get(), 3, b.sge(2000, 200)), 0);
  a.memory[500] = 0x77;
  send();
  for (std::uint64_t id : {1u, 2u}) {
    const struct ibv_wc wc = wait_completion(b.recv_cq);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, kGrh + 100);
    EXPECT_EQ(wc.src_qp, qa->qp_num);
  }
  b.sync();
  EXPECT_EQ(b.memory[kGrh], 0x77);
  EXPECT_EQ(b.memory[1000 + kGrh], 0x77);
  EXPECT_TRUE(std::equal(group.raw + 12, group.raw + 16, b.memory.begin() + 36)) << "to the group";
  expect_no_completion(b.recv_cq);
  ASSERT_EQ(impl::ibv_detach_mcast(qb.get(), &group, 0), 0);
  ASSERT_EQ(impl::ibv_detach_mcast(other.get(), &group, 0), 0);
  ASSERT_EQ(impl::ibv_detach_mcast(stranger.get(), &another, 0), 0);
}

// The sender's own NIC hears it as well when it has joined.
TEST_F(Multicast, TheSenderMayBeAMember) {
  ASSERT_EQ(impl::ibv_attach_mcast(qa.get(), &group, 0), 0) << last_error();
  ASSERT_EQ(post_recv(qa.get(), 1, a.sge(0, 200)), 0);
  send();
  EXPECT_EQ(wait_completion(a.recv_cq).byte_len, kGrh + 100);
  ASSERT_EQ(impl::ibv_detach_mcast(qa.get(), &group, 0), 0);
}

TEST_F(Multicast, WhoHasLeftHearsNothing) {
  const QpPtr other = b.make_qp(kCap, false, IBV_QPT_UD);
  bring_to(other.get(), IBV_QPS_RTS, {}, 0);
  for (struct ibv_qp* qp : {qb.get(), other.get()}) {
    ASSERT_EQ(impl::ibv_attach_mcast(qp, &group, 0), 0) << last_error();
    ASSERT_EQ(post_recv(qp, qp->qp_num, b.sge(0, 200)), 0);
  }
  ASSERT_EQ(impl::ibv_detach_mcast(qb.get(), &group, 0), 0);
  send();
  EXPECT_EQ(wait_completion(b.recv_cq).qp_num, other->qp_num);
  expect_no_completion(b.recv_cq);
  ASSERT_EQ(impl::ibv_detach_mcast(other.get(), &group, 0), 0);
}

TEST_F(Multicast, Misuse) {
  const QpPtr rc = b.make_qp();
  EXPECT_EQ(impl::ibv_attach_mcast(rc.get(), &group, 0), EINVAL);
  const union ibv_gid unicast = b.gid();
  EXPECT_EQ(impl::ibv_attach_mcast(qb.get(), &unicast, 0), EINVAL);
  EXPECT_EQ(impl::ibv_detach_mcast(qb.get(), &group, 0), EINVAL) << "not attached";
  union ibv_gid ipv6 {};
  ipv6.raw[0] = 0xFF;
  ipv6.raw[15] = 1;
  for (const int scope : {0x01, 0x02, 0x15}) {
    ipv6.raw[1] = static_cast<std::uint8_t>(scope);
    EXPECT_EQ(impl::ibv_attach_mcast(qb.get(), &ipv6, 0), EADDRNOTAVAIL) << "the NIC has no IPv6 address";
  }
  ASSERT_EQ(impl::ibv_attach_mcast(qb.get(), &group, 0), 0) << last_error();
  EXPECT_EQ(impl::ibv_attach_mcast(qb.get(), &group, 0), 0) << "once more changes nothing";
  EXPECT_EQ(v().ibv_destroy_qp(qb.get()), EBUSY);
  EXPECT_EQ(impl::ibv_detach_mcast(qb.get(), &group, 0), 0);
  EXPECT_EQ(impl::ibv_detach_mcast(qb.get(), &group, 0), EINVAL);
}

TEST_F(Multicast, TheDeviceSaysHowMany) {
  struct ibv_device_attr attr {};
  ASSERT_EQ(v().ibv_query_device(a.context.get(), &attr), 0);
  EXPECT_EQ(attr.max_mcast_grp, 256);
  EXPECT_EQ(attr.max_mcast_qp_attach, 256);
  EXPECT_EQ(attr.max_total_mcast_qp_attach, 65536);
  EXPECT_EQ(attr.max_ah, 65536);
}

}  // namespace
}  // namespace uroce::ibv::test
