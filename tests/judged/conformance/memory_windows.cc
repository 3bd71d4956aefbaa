// SPDX-License-Identifier: Apache-2.0
// Memory windows, and invalidating what is none.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

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
constexpr Rule kQpGoes{"type 2B windows end with their QP", "IBTA Vol 1, 10.6.7.2.4"};
constexpr Rule kInvalidateMr{"an ordinary MR can't be invalidated", "IBTA Vol 1, 10.6.5 ?"};
constexpr Rule kBindRights{"a window needs IBV_ACCESS_MW_BIND, the rights of its MR and its bounds; MW_BIND_ERR",
                           "IBTA Vol 1, 10.6.7 ?; ibv_bind_mw(3)"};

constexpr Why kOwnStatus = specification("rxe's QP goes to ERR first, and the flush overwrites the status");
constexpr Why kBusy =
    choice("both refuse; ibv_dereg_mr(3) names no errno, and EBUSY is what other objects in use return");
constexpr Why kByVerb = choice("ibv_post_send(3) gives IBV_WR_BIND_MW windows of type 2 only; rxe binds both");
constexpr Why kNoWait = specification("rxe's window holds a reference to the QP, which waits for it");

constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;
constexpr unsigned int kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// A connected QP, and a window on the first 4096 bytes of its region once it is bound.
struct Window {
  explicit Window(enum ibv_mw_type type = IBV_MW_TYPE_2, int access = kBindable)
      : link(LinkOptions{.a_side = {.access = access}}), mw(ibv_alloc_mw(link.a.pd, type)) {
    EXPECT_NE(mw, nullptr);
  }
  ~Window() {
    if (mw != nullptr) {
      EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    }
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  struct ibv_mw_bind_info info(std::size_t at = 0, std::uint64_t length = 4096, unsigned int access = kRemote) const {
    return {link.a.mr, link.a.address(at), length, access};
  }
  /// "ok", and whether only the low byte of the key is new.
  std::string post(std::uint64_t wr_id, const struct ibv_mw_bind_info& what) {
    struct ibv_send_wr wr {};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = what;
    std::string posted = post_one(link.a.qp.get(), wr);
    if (posted != "ok") return posted;
    mw->rkey = wr.bind_mw.rkey;
    return posted + ", new rkey";
  }
  std::string bind(std::uint64_t wr_id, const struct ibv_mw_bind_info& what) {
    const std::string posted = post(wr_id, what);
    return posted == "ok, new rkey" ? say({posted, words(take(link.a.cq, 1))}) : posted;
  }
  std::string invalidate(std::uint64_t wr_id) {
    struct ibv_send_wr wr {};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = mw->rkey;
    const std::string posted = post_one(link.a.qp.get(), wr);
    return say({posted, words(take(link.a.cq, 1))});
  }
  /// ibv_bind_mw().
  std::string bind1(std::uint64_t wr_id, const struct ibv_mw_bind_info& what) {
    struct ibv_mw_bind request {
      wr_id, IBV_SEND_SIGNALED, what
    };
    const std::uint32_t before = mw->rkey;
    if (const int error = ibv_bind_mw(link.a.qp.get(), mw, &request)) return word(error);
    return say({before != mw->rkey && before >> 8 == mw->rkey >> 8 ? "ok, new rkey" : "ok, another index",
                words(take(link.a.cq, 1))});
  }

  Link link;
  struct ibv_mw* mw;
};

std::string refused_bind(int region_access, std::size_t at, std::uint64_t length, unsigned int access) {
  Window window(IBV_MW_TYPE_2, region_access);
  const std::string bound = window.bind(1, window.info(at, length, access));
  return say({bound, window.link.a.state()});
}

std::string dereg_bound() {
  Window window;
  window.bind(1, window.info());
  return word(v().ibv_dereg_mr(window.link.a.mr));
}

std::string bind_twice() {
  Window window;
  window.bind(1, window.info());
  const std::string again = window.bind(2, window.info());
  return say({again, window.link.a.state()});
}

std::string invalidate() {
  Window window;
  window.bind(1, window.info());
  const std::string done = window.invalidate(2);
  return say({done, window.link.a.state()});
}

std::string dereg_after_that() {
  Window window;
  window.bind(1, window.info());
  window.invalidate(2);
  const int error = v().ibv_dereg_mr(window.link.a.mr);
  if (error == 0) window.link.a.mr = nullptr;
  return word(error);
}

std::string dealloc_window() {
  Window window;
  const int error = ibv_dealloc_mw(window.mw);
  if (error == 0) window.mw = nullptr;
  return word(error);
}

std::string destroy_bound_qp() {
  Window window;
  window.bind(1, window.info());
  const int destroyed = v().ibv_destroy_qp(window.link.a.qp.release());
  const int error = ibv_dealloc_mw(window.mw);
  if (error == 0) window.mw = nullptr;
  return say({word(destroyed), word(error)});
}

std::string unbind1() {
  Window window(IBV_MW_TYPE_1);
  window.bind1(1, window.info());
  const std::string done = window.bind1(2, {});
  return say({done, window.link.a.state()});
}

std::string bind1_by_post() {
  Window window(IBV_MW_TYPE_1);
  const std::string bound = window.bind(1, window.info());
  return say({bound, window.link.a.state()});
}

std::string invalidate_mr() {
  Link link;
  struct ibv_send_wr wr = send_wr(2, IBV_WR_LOCAL_INV, nullptr);
  wr.invalidate_rkey = link.b.mr->rkey;
  const std::string posted = post_one(link.b.qp.get(), wr);
  return say({posted, words(take(link.b.cq, 1)), link.b.state()});
}

}  // namespace

Chapter memory_windows() {
  return {
      "memory_windows",
      "Memory windows",
      {
          {"bind type 2 MW (post_send)", kBind, "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW",
           "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW", kSame,
           [] {
             Window window;
             return window.bind(1, window.info());
           }},
          {"dereg MR with a bound MW", kMrBound, "EBUSY", "EINVAL", kBusy, dereg_bound},
          {"bind again without invalidating first", kRebind, "ok, new rkey; MW_BIND_ERR wr 2; ERR",
           "ok, new rkey; WR_FLUSH_ERR wr 2; ERR", kOwnStatus, bind_twice},
          {"LOCAL_INV of a bound type 2 MW", kInvalidate, "ok; SUCCESS wr 2 len 0 LOCAL_INV; RTS",
           "ok; SUCCESS wr 2 len 0 LOCAL_INV; RTS", kSame, invalidate},
          {"dereg MR after that", kMrBound, "ok", "ok", kSame, dereg_after_that},
          {"dealloc MW", kDealloc, "ok", "ok", kSame, dealloc_window},
          {"destroy QP while a type 2 MW is bound to it; then dealloc the MW", kQpGoes, "ok; ok",
           "ok; ok; took 51.1 s: the window holds a reference to the QP", kNoWait, destroy_bound_qp},
          {"LOCAL_INV of an ordinary MR", kInvalidateMr, "ok; MW_BIND_ERR wr 2; ERR", "ok; WR_FLUSH_ERR wr 2; ERR",
           kOwnStatus, invalidate_mr},
          {"bind MW to an MR without MW_BIND access", kBindRights, "ok, new rkey; MW_BIND_ERR wr 1; ERR",
           "ok, new rkey; WR_FLUSH_ERR wr 1; ERR", kOwnStatus,
           [] { return refused_bind(kAllAccess, 0, 4096, kRemote); }},
          {"bind MW with remote write to an MR without local write", kBindRights, "ok, new rkey; MW_BIND_ERR wr 1; ERR",
           "ok, new rkey; WR_FLUSH_ERR wr 1; ERR", kOwnStatus,
           [] { return refused_bind(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND, 0, 4096, kRemote); }},
          {"bind MW over the end of the MR", kBindRights, "ok, new rkey; MW_BIND_ERR wr 1; ERR",
           "ok, new rkey; WR_FLUSH_ERR wr 1; ERR", kOwnStatus,
           [] { return refused_bind(kBindable, 4096, 1 << 20, kRemote); }},
          {"bind MW of length 0", kBindRights, "ok, new rkey; MW_BIND_ERR wr 1; ERR",
           "ok, new rkey; WR_FLUSH_ERR wr 1; ERR", kOwnStatus, [] { return refused_bind(kBindable, 0, 0, kRemote); }},
          {"ibv_bind_mw type 1", kBind, "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW",
           "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW", kSame,
           [] {
             Window window(IBV_MW_TYPE_1);
             return window.bind1(1, window.info());
           }},
          {"ibv_bind_mw type 1, length 0 (unbind)", kBind, "ok, new rkey; SUCCESS wr 2 len 0 BIND_MW; RTS",
           "ok, new rkey; SUCCESS wr 2 len 0 BIND_MW; RTS", kSame, unbind1},
          {"post_send bind of a type 1 MW", kBind, "EINVAL, bad_wr = wr_id 1; RTS",
           "ok, new rkey; SUCCESS wr 1 len 0 BIND_MW; RTS", kByVerb, bind1_by_post},
      }};
}

}  // namespace uroce::conformance
