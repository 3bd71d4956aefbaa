// SPDX-License-Identifier: Apache-2.0
// ibv_modify_qp and ibv_query_qp.
#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

class Modify : public testing::Test {
 protected:
  int modify(struct ibv_qp_attr attr, int mask) { return v().ibv_modify_qp(qp.get(), &attr, mask); }
  /// An unreachable peer will do: nothing is sent.
  void bring(enum ibv_qp_state state) {
    if (state == IBV_QPS_RESET) return;
    if (state == IBV_QPS_ERR) {
      ASSERT_EQ(set_state(qp.get(), IBV_QPS_ERR), 0);
      return;
    }
    bring_to(qp.get(), state == IBV_QPS_SQD ? IBV_QPS_RTS : state, node.gid(), kPeerQpn);
    if (state != IBV_QPS_SQD) return;
    ASSERT_EQ(set_state(qp.get(), IBV_QPS_SQD), 0);
  }
  struct ibv_qp_attr query() {
    struct ibv_qp_attr attr {};
    struct ibv_qp_init_attr init {};
    EXPECT_EQ(v().ibv_query_qp(qp.get(), &attr, ~0, &init), 0);
    return attr;
  }

  static constexpr std::uint32_t kPeerQpn = 0xABCDE;
  Node node{0};
  QpPtr qp = node.make_qp();
};

TEST_F(Modify, StateAloneLeadsOnlyToWhereNothingIsNeeded) {
  // Rows: from; columns: to RESET INIT RTR RTS SQD SQE ERR.
  const std::pair<enum ibv_qp_state, const char*> rows[] = {
      {IBV_QPS_RESET, "y.....y"}, {IBV_QPS_INIT, "yy....y"}, {IBV_QPS_RTR, "y.....y"},
      {IBV_QPS_RTS, "y..yy.y"},   {IBV_QPS_SQD, "y..yy.y"},  {IBV_QPS_ERR, "y.....y"},
  };
  for (const auto& [from, row] : rows) {
    for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; ++to) {
      qp = node.make_qp();
      bring(from);
      const int error = set_state(qp.get(), static_cast<enum ibv_qp_state>(to));
      EXPECT_EQ(error, row[to] == 'y' ? 0 : EINVAL) << "from " << from << " to " << to;
      EXPECT_EQ(state_of(qp.get()), error == 0 ? to : from);
      EXPECT_EQ(qp->state, error == 0 ? to : from);
    }
  }
}

TEST_F(Modify, EachStepNeedsEachOfItsAttributes) {
  const struct {
    enum ibv_qp_state from;
    struct ibv_qp_attr attr;
    int mask;
  } steps[] = {{IBV_QPS_RESET, init_attr(), kInitMask},
               {IBV_QPS_INIT, rtr_attr(node.gid(), kPeerQpn), kRtrMask},
               {IBV_QPS_RTR, rts_attr(), kRtsMask}};
  for (const auto& step : steps) {
    qp = node.make_qp();
    bring(step.from);
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if (bit == IBV_QP_STATE || (step.mask & bit) == 0) continue;
      EXPECT_EQ(modify(step.attr, step.mask & ~bit), EINVAL) << "without bit " << bit;
      EXPECT_NE(last_error().find("missing IBV_QP_"), std::string::npos) << last_error();
    }
    EXPECT_EQ(modify(step.attr, step.mask | IBV_QP_QKEY), EINVAL);
    EXPECT_NE(last_error().find("IBV_QP_QKEY"), std::string::npos) << last_error();
    EXPECT_EQ(modify(step.attr, step.mask | IBV_QP_RATE_LIMIT), EINVAL);
    EXPECT_EQ(state_of(qp.get()), step.from);
    EXPECT_EQ(modify(step.attr, step.mask), 0) << last_error();
  }
}

TEST_F(Modify, InitRanges) {
  struct ibv_qp_attr attr = init_attr();
  for (const int port : {0, 2, 255}) {
    attr.port_num = static_cast<std::uint8_t>(port);
    EXPECT_EQ(modify(attr, kInitMask), EINVAL) << port;
  }
  attr = init_attr();
  attr.pkey_index = 1;
  EXPECT_EQ(modify(attr, kInitMask), EINVAL);
  attr = init_attr();
  attr.qp_access_flags = 1u << 12;
  EXPECT_EQ(modify(attr, kInitMask), EINVAL);
  for (const unsigned int of_regions : {1u << 5, 1u << 6, 1u << 7, 1u << 8, 1u << 9, 1u << 20}) {
    // Zero based, on demand, huge pages, two FLUSHes, relaxed ordering: programs pass what their region has.
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | of_regions;
    EXPECT_EQ(modify(attr, kInitMask), 0) << of_regions;
  }
  attr = init_attr();
  set_raw(attr.qp_state, 256 + IBV_QPS_INIT);
  EXPECT_EQ(modify(attr, kInitMask), EINVAL);
}

TEST_F(Modify, AddressVectorRules) {
  bring(IBV_QPS_INIT);
  const struct ibv_qp_attr good = rtr_attr(node.gid(), kPeerQpn);
  struct ibv_qp_attr attr = good;
  attr.ah_attr.is_global = 0;
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  attr.ah_attr.port_num = 2;
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  for (const int without_address : {2, 255}) {
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(without_address);
    EXPECT_EQ(modify(attr, kRtrMask), ENODATA);
  }
  attr = good;
  attr.ah_attr.grh.dgid.raw[0] = 0x20;  // IPv6 from IPv4.
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  attr.ah_attr.grh.dgid = node.gid(0);
  attr.ah_attr.grh.dgid.raw[8] ^= 0x50;  // Link-local, of an interface.
  EXPECT_EQ(modify(attr, kRtrMask), ETIMEDOUT);
  attr = good;
  attr.ah_attr.grh.dgid = {};
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  attr.ah_attr.grh.dgid.raw[12] = 224;  // Multicast.
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  std::memset(attr.ah_attr.grh.dgid.raw + 12, 0xFF, 4);  // Broadcast: no route, in any network.
  EXPECT_EQ(modify(attr, kRtrMask), ETIMEDOUT);
  EXPECT_NE(last_error().find("no route from 127.0.0."), std::string::npos) << last_error();
  EXPECT_EQ(modify(good, kRtrMask), 0) << last_error();
}

TEST_F(Modify, RtrRanges) {
  bring(IBV_QPS_INIT);
  const struct ibv_qp_attr good = rtr_attr(node.gid(), kPeerQpn);
  struct ibv_qp_attr attr = good;
  for (const int mtu : {0, 6, 257}) {
    set_raw(attr.path_mtu, mtu);
    EXPECT_EQ(modify(attr, kRtrMask), EINVAL) << mtu;
  }
  attr = good;
  attr.min_rnr_timer = 32;
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  attr = good;
  attr.max_dest_rd_atomic = 129;
  EXPECT_EQ(modify(attr, kRtrMask), EINVAL);
  EXPECT_EQ(modify(good, kRtrMask | IBV_QP_ALT_PATH), EOPNOTSUPP);
  attr = good;
  attr.rq_psn = 0x1000005;
  attr.dest_qp_num = 0xFF000007;
  EXPECT_EQ(modify(attr, kRtrMask), 0);
  EXPECT_EQ(query().rq_psn, 5u) << "24 bits count";
  EXPECT_EQ(query().dest_qp_num, 7u);
}

TEST_F(Modify, RtsRanges) {
  bring(IBV_QPS_RTR);
  const struct ibv_qp_attr good = rts_attr();
  struct ibv_qp_attr attr = good;
  attr.timeout = 32;
  EXPECT_EQ(modify(attr, kRtsMask), EINVAL);
  attr = good;
  attr.retry_cnt = 8;
  EXPECT_EQ(modify(attr, kRtsMask), EINVAL);
  attr = good;
  attr.rnr_retry = 8;
  EXPECT_EQ(modify(attr, kRtsMask), EINVAL);
  attr = good;
  attr.max_rd_atomic = 129;
  EXPECT_EQ(modify(attr, kRtsMask), EINVAL);
  attr = good;
  attr.cur_qp_state = IBV_QPS_INIT;
  EXPECT_EQ(modify(attr, kRtsMask | IBV_QP_CUR_STATE), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTR;
  EXPECT_EQ(modify(attr, kRtsMask | IBV_QP_CUR_STATE), 0);
}

TEST_F(Modify, QueryReturnsWhatWasSet) {
  bring(IBV_QPS_RTS);
  const struct ibv_qp_attr attr = query();
  const struct ibv_qp_attr rtr = rtr_attr(node.gid(), kPeerQpn);
  const struct ibv_qp_attr rts = rts_attr();
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.sq_draining, 0);
  EXPECT_EQ(attr.path_mtu, rtr.path_mtu);
  EXPECT_EQ(attr.dest_qp_num, kPeerQpn);
  EXPECT_EQ(attr.rq_psn, rtr.rq_psn);
  EXPECT_EQ(attr.sq_psn, rts.sq_psn);
  EXPECT_EQ(attr.min_rnr_timer, rtr.min_rnr_timer);
  EXPECT_EQ(attr.max_rd_atomic, rts.max_rd_atomic);
  EXPECT_EQ(attr.max_dest_rd_atomic, rtr.max_dest_rd_atomic);
  EXPECT_EQ(attr.timeout, rts.timeout);
  EXPECT_EQ(attr.retry_cnt, rts.retry_cnt);
  EXPECT_EQ(attr.rnr_retry, rts.rnr_retry);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.qp_access_flags, init_attr().qp_access_flags);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.ah_attr.grh.hop_limit, 1);
  EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, node.gid().raw, 16), 0);
  EXPECT_GE(attr.cap.max_send_wr, 64u);
}

TEST_F(Modify, QueryChangesTheProgramsStateOnlyWhenAskedForIt) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  qp = node.make_qp();
  qp->state = IBV_QPS_RTS;  // As a program knows it whose QP has broken since.
  ASSERT_EQ(v().ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ASSERT_EQ(v().ibv_query_qp(qp.get(), &attr, IBV_QP_CAP | IBV_QP_STATE, &init), 0);
  EXPECT_EQ(qp->state, attr.qp_state);
  EXPECT_NE(qp->state, IBV_QPS_RTS);
}

TEST_F(Modify, QueryReturnsHowTheQpWasMade) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  qp = node.make_qp({10, 20, 3, 4, 50}, true);
  ASSERT_EQ(v().ibv_query_qp(qp.get(), &attr, 0, &init), 0);
  EXPECT_EQ(init.send_cq, node.send_cq);
  EXPECT_EQ(init.recv_cq, node.recv_cq);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_GE(init.cap.max_send_wr, 10u);
  EXPECT_GE(init.cap.max_recv_wr, 20u);
  EXPECT_GE(init.cap.max_send_sge, 3u);
  EXPECT_GE(init.cap.max_recv_sge, 4u);
  EXPECT_GE(init.cap.max_inline_data, 50u);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
}

TEST(QueryQp, PsnsAreThoseOfTheNextRequests) {
  for (const auto state : {IBV_QPS_RTS, IBV_QPS_ERR}) {
    Pair p;
    const auto psns = [](const QpPtr& qp) {
      struct ibv_qp_attr attr {};
      struct ibv_qp_init_attr init {};
      EXPECT_EQ(v().ibv_query_qp(qp.get(), &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init), 0);
      return std::pair(attr.sq_psn, attr.rq_psn);
    };
    const auto [sq_psn, rq_psn] = psns(p.qa);
    const auto before = psns(p.qb);
    struct ibv_sge sge = p.a.sge(0, 8);
    for (std::uint64_t i = 0; i < 3; ++i) {
      ASSERT_EQ(post_recv(p.qb.get(), i, p.b.sge(0, 8)), 0);
      ASSERT_EQ(post(p.qa.get(), send_wr(i, IBV_WR_SEND, &sge)), 0);
      EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
    }
    ASSERT_EQ(set_state(p.qa.get(), state), 0);
    EXPECT_EQ(psns(p.qa), std::pair(sq_psn + 3, rq_psn));
    EXPECT_EQ(psns(p.qb), std::pair(before.first, before.second + 3));
  }
}

TEST_F(Modify, ResetForgetsAttributes) {
  bring(IBV_QPS_RTS);
  ASSERT_EQ(set_state(qp.get(), IBV_QPS_RESET), 0);
  const struct ibv_qp_attr attr = query();
  EXPECT_EQ(attr.dest_qp_num, 0u);
  EXPECT_EQ(attr.ah_attr.is_global, 0);
  EXPECT_EQ(attr.timeout, 0);
}

TEST_F(Modify, RefusedModificationChangesNothing) {
  bring(IBV_QPS_RTS);
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTS;
  attr.min_rnr_timer = 32;
  attr.qp_access_flags = 0;
  EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(query().min_rnr_timer, rtr_attr(node.gid(), kPeerQpn).min_rnr_timer);
  EXPECT_EQ(query().qp_access_flags, init_attr().qp_access_flags);
}

TEST_F(Modify, RtsTakesNewAccessFlagsButNoNewTimeout) {
  bring(IBV_QPS_RTS);
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTS;
  attr.min_rnr_timer = 3;
  attr.timeout = 5;
  EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(query().qp_access_flags, 0u);
  EXPECT_EQ(query().min_rnr_timer, 3);
  EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL);
  EXPECT_EQ(modify(attr, IBV_QP_ACCESS_FLAGS), 0) << "without IBV_QP_STATE the state stays";
}

TEST_F(Modify, SqdTakesAnotherAddress) {
  bring(IBV_QPS_SQD);
  EXPECT_EQ(query().sq_draining, 0);
  struct ibv_qp_attr attr = rtr_attr(node.gid(), 0);
  attr.qp_state = IBV_QPS_SQD;
  attr.ah_attr.grh.traffic_class = 0x68;
  attr.timeout = 20;
  EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT), 0) << last_error();
  EXPECT_EQ(query().ah_attr.grh.traffic_class, 0x68);
  EXPECT_EQ(query().timeout, 20);
  EXPECT_EQ(query().dest_qp_num, kPeerQpn);
  EXPECT_EQ(set_state(qp.get(), IBV_QPS_RTS), 0);
}

TEST(ModifyPair, QueryShowsAnErrorThatNobodyAskedFor) {
  Pair p;
  struct ibv_sge sge = p.a.sge(0, 8);
  sge.lkey += 1;
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_ERR);
}

// Index 0, a link-local GID, stands for the NIC's address: at either side, or at both.
TEST(Gid0, ConnectsWithEitherGidOfThePeer) {
  for (enum ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    for (int gids = 0; gids < 4; ++gids) {
      SCOPED_TRACE(gids);
      const int index_a = gids & 1, index_b = gids >> 1;
      Node a(0), b(1);
      const QpPtr qa = a.make_qp({4, 4, 1, 1, 0}, false, type), qb = b.make_qp({4, 4, 1, 1, 0}, false, type);
      const auto connect = [](const QpPtr& qp, int own, const union ibv_gid& peer, std::uint32_t qpn) {
        struct ibv_qp_attr attr = init_attr();
        ASSERT_EQ(v().ibv_modify_qp(qp.get(), &attr, mask_for(*qp, IBV_QPS_INIT)), 0);
        attr = rtr_attr(peer, qpn);
        attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(own);
        ASSERT_EQ(v().ibv_modify_qp(qp.get(), &attr, mask_for(*qp, IBV_QPS_RTR)), 0) << last_error();
        attr = rts_attr();
        ASSERT_EQ(v().ibv_modify_qp(qp.get(), &attr, mask_for(*qp, IBV_QPS_RTS)), 0);
        struct ibv_qp_init_attr init {};
        ASSERT_EQ(v().ibv_query_qp(qp.get(), &attr, IBV_QP_AV, &init), 0);
        EXPECT_EQ(attr.ah_attr.grh.sgid_index, own);
        EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, peer.raw, sizeof peer.raw), 0) << "as it was said";
      };
      connect(qa, index_a, b.gid(index_b), qb->qp_num);
      connect(qb, index_b, a.gid(index_a), qa->qp_num);
      ASSERT_EQ(post_recv(qb.get(), 3, b.sge(0, 8)), 0);
      struct ibv_sge sge = a.sge(0, 8);
      ASSERT_EQ(post(qa.get(), send_wr(2, IBV_WR_SEND, &sge)), 0);
      EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_SUCCESS);
      EXPECT_EQ(wait_completion(b.recv_cq).wr_id, 3u);
    }
  }
}

}  // namespace
}  // namespace uroce::ibv::test
