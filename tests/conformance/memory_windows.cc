// Memory windows, and invalidating what is none.
#include "tests/conformance/case.h"
#include "tests/conformance/not_offered.h"

namespace uroce::conformance {
namespace {

constexpr Rule kBind{"a bind gives the window an R_Key and completes",
                     "IBTA Vol 1, 10.6.7 ?; ibv_bind_mw(3), ibv_post_send(3)"};
constexpr Rule kMrBound{"an MR with windows bound to it stays",
                        "IBTA Vol 1, 10.6.7 ?: EBUSY or EINVAL; ibv_dereg_mr(3)"};
constexpr Rule kRebind{"a type 2 window is invalidated before it is bound again",
                       "IBTA Vol 1, 10.6.7.2 ?; MW_BIND_ERR"};
constexpr Rule kInvalidate{"LOCAL_INV takes a type 2 window back", "IBTA Vol 1, 10.6.5 ?; ibv_post_send(3)"};
constexpr Rule kDealloc{"a window that is not bound can go", "ibv_alloc_mw(3)"};
constexpr Rule kQpGoes{"type 2B windows end with their QP", "IBTA Vol 1, 10.6.7.2.4 ?"};
constexpr Rule kInvalidateMr{"an ordinary MR can't be invalidated", "IBTA Vol 1, 10.6.5 ?"};
constexpr Rule kBindRights{"a window needs IBV_ACCESS_MW_BIND, the rights of its MR and its bounds; MW_BIND_ERR",
                           "IBTA Vol 1, 10.6.7 ?; ibv_bind_mw(3)"};

Case window(const char* name, const Rule& rule, const char* rxe, enum ibv_mw_type type = IBV_MW_TYPE_2) {
  return {name, rule, "alloc MW: EOPNOTSUPP", rxe, kNotOffered, [type] { return try_mw(type); }};
}

std::string invalidate_mr() {
  Link link;
  struct ibv_send_wr wr = send_wr(2, IBV_WR_LOCAL_INV, nullptr);
  wr.invalidate_rkey = link.b.mr->rkey;
  const std::string posted = post_one(link.b.qp.get(), wr);
  return say({posted, words(take(link.b.cq, 0)), link.b.state()});
}

}  // namespace

Chapter memory_windows() {
  return {"memory_windows",
          "Memory windows",
          {
              window("bind type 2 MW (post_send)", kBind, "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW"),
              window("dereg MR with a bound MW", kMrBound, "EINVAL"),
              window("bind again without invalidating first", kRebind, "ok, new rkey; WR_FLUSH_ERR wr 2; ERR"),
              window("LOCAL_INV of a bound type 2 MW", kInvalidate, "ok; SUCCESS wr 2 len 0 LOCAL_INV; RTS"),
              window("dereg MR after that", kMrBound, "ok"),
              window("dealloc MW", kDealloc, "ok"),
              window("destroy QP while a type 2 MW is bound to it; then dealloc the MW", kQpGoes,
                     "ok; ok; took 51.1 s: the window holds a reference to the QP"),
              {"LOCAL_INV of an ordinary MR", kInvalidateMr, "EINVAL, bad_wr = wr_id 2; none; RTS",
               "ok; WR_FLUSH_ERR wr 2; ERR", kNotOffered, invalidate_mr},
              window("bind MW to an MR without MW_BIND access", kBindRights, "ok, new rkey; WR_FLUSH_ERR wr 1; ERR"),
              window("bind MW with remote write to an MR without local write", kBindRights,
                     "ok, new rkey; WR_FLUSH_ERR wr 1; ERR"),
              window("bind MW over the end of the MR", kBindRights, "ok, new rkey; WR_FLUSH_ERR wr 1; ERR"),
              window("bind MW of length 0", kBindRights, "ok, new rkey; WR_FLUSH_ERR wr 1; ERR"),
              window("ibv_bind_mw type 1", kBind, "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW; only its low byte changes",
                     IBV_MW_TYPE_1),
              window("ibv_bind_mw type 1, length 0 (unbind)", kBind, "ok, new rkey; SUCCESS wr 2 len 0 BIND_MW; RTS",
                     IBV_MW_TYPE_1),
              window("post_send bind of a type 1 MW", kBind, "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW; RTS",
                     IBV_MW_TYPE_1),
          }};
}

}  // namespace uroce::conformance
