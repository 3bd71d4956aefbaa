// SPDX-License-Identifier: Apache-2.0
// What can be destroyed while something else needs it.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"
#include "tests/judged/conformance/not_offered.h"
#include "tests/judged/conformance/srqs.h"

namespace uroce::conformance {
namespace {

constexpr Rule kPdInUse{"a PD with objects in it stays", "IBTA Vol 1, 11.2.1 ? (Deallocate PD); ibv_dealloc_pd(3)"};
constexpr Rule kCqInUse{"a CQ with QPs on it stays", "IBTA Vol 1, 10.2.6.4 ?; ibv_create_cq(3)"};
constexpr Rule kChannelInUse{"a channel with CQs on it stays", "ibv_create_comp_channel(3)"};
constexpr Rule kSrqInUse{"an SRQ with QPs on it stays", "IBTA Vol 1, 10.2.9 ?; ibv_create_srq(3)"};
constexpr Rule kMrUnused{"an MR is not tied to QPs", "IBTA Vol 1, 10.6.2 ?; ibv_reg_mr(3)"};
constexpr Rule kMrGone{"a WR whose MR goes under it fails: LOC_PROT_ERR", "IBTA Vol 1, 10.6.2 ? and 11.6.2"};

std::string dealloc_used_pd() {
  Side side(0);
  return word(v().ibv_dealloc_pd(side.pd));
}

std::string destroy_used_cq() {
  Side side(0);
  return word(v().ibv_destroy_cq(side.cq));
}

std::string dealloc_pd_with_mr() {
  Side side(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(side.context.get());
  struct ibv_mr* mr = v().ibv_reg_mr(pd, side.memory.data(), 64, kAllAccess);
  std::string tried = word(v().ibv_dealloc_pd(pd));
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
  return tried;
}

std::string dealloc_pd_with_mw() {
  const ContextPtr context = open_device(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(context.get());
  struct ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  std::string tried = word(v().ibv_dealloc_pd(pd));
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
  return tried;
}

std::string dealloc_empty_pd() {
  const ContextPtr context = open_device(0);
  return word(v().ibv_dealloc_pd(v().ibv_alloc_pd(context.get())));
}

std::string destroy_used_channel() {
  Side side(0);
  return word(v().ibv_destroy_comp_channel(side.channel));
}

std::string dereg_unused() {
  Link link;
  const int error = v().ibv_dereg_mr(link.b.mr);
  if (error == 0) link.b.mr = nullptr;
  return word(error);
}

/// B posts no receive: A's send is repeated from its MR until that is gone.
std::string dereg_in_use() {
  Link link({.b = {.min_rnr_timer = 24}});
  struct ibv_sge sge = link.a.sge(0, 64);
  EXPECT_EQ(post(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  quiesce();
  const int error = v().ibv_dereg_mr(link.a.mr);
  if (error == 0) link.a.mr = nullptr;
  return say({word(error), words(take(link.a.cq, 1)), link.a.state()});
}

}  // namespace

Chapter life_cycle() {
  const auto ah = [] {
    struct ibv_ah_attr attr {};
    attr.is_global = attr.port_num = attr.grh.sgid_index = 1;
    attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xFF;
    attr.grh.dgid.raw[12] = 127;
    attr.grh.dgid.raw[15] = 1;
    return try_ah(attr, true);
  };
  return {"life_cycle",
          "Object life cycle",
          {
              {"dealloc PD with MR and QP", kPdInUse, "EBUSY", "EBUSY", kSame, dealloc_used_pd},
              {"destroy CQ with a QP on it", kCqInUse, "EBUSY", "EBUSY", kSame, destroy_used_cq},
              {"dealloc PD with only an MR", kPdInUse, "EBUSY", "EBUSY", kSame, dealloc_pd_with_mr},
              {"dealloc PD with only an MW", kPdInUse, "EBUSY", "EBUSY", kSame, dealloc_pd_with_mw},
              {"dealloc PD with only an AH", kPdInUse, "EBUSY", "EBUSY", kSame, ah},
              {"dealloc PD with only an SRQ", kPdInUse, "EBUSY", "EBUSY", kSame, dealloc_pd_with_srq},
              {"dealloc empty PD", kPdInUse, "ok", "ok", kSame, dealloc_empty_pd},
              {"destroy completion channel with a CQ", kChannelInUse, "EBUSY", "EBUSY", kSame, destroy_used_channel},
              {"destroy SRQ with a QP", kSrqInUse, "EBUSY", "EBUSY", kSame, destroy_used_srq},
              {"dereg MR while a connected QP exists (no WR using it)", kMrUnused, "ok", "ok", kSame, dereg_unused},
              {"dereg an MR used by a send that waits for RNR", kMrGone, "ok; LOC_PROT_ERR wr 1; ERR",
               "ok; WR_FLUSH_ERR wr 1; ERR", kFlushed, dereg_in_use},
          }};
}

}  // namespace uroce::conformance
