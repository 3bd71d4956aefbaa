// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/conformance/srqs.h"

#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::conformance {
namespace {

namespace impl = uroce::ibv::impl;

constexpr struct ibv_srq_attr kSixteen { 16, 1, 0 };

/// An SRQ, and a QP on it.
struct Shared {
  explicit Shared(const struct ibv_srq_attr& attr = kSixteen) : side(0) {
    init.attr = attr;
    srq = impl::ibv_create_srq(side.pd, &init);
  }
  ~Shared() {
    qp.reset();
    if (srq != nullptr) {
      EXPECT_EQ(impl::ibv_destroy_srq(srq), 0);
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void attach_qp() {
    struct ibv_qp_init_attr qp_init {};
    qp_init.send_cq = qp_init.recv_cq = side.cq;
    qp_init.cap = {16, 16, 1, 1, 0};
    qp_init.qp_type = IBV_QPT_RC;
    qp_init.srq = srq;
    qp.reset(v().ibv_create_qp(side.pd, &qp_init));
  }
  int post(std::uint64_t wr_id, struct ibv_recv_wr** bad) {
    struct ibv_sge sge = side.sge(0, 64);
    struct ibv_recv_wr wr {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    const int error = ibv_post_srq_recv(srq, &wr, bad);
    if (error != 0) {
      EXPECT_EQ(*bad, &wr);
    }
    return error;
  }
  std::string fill() {
    for (std::uint64_t n = 0;; ++n) {
      struct ibv_recv_wr* bad = nullptr;
      if (const int error = post(n, &bad)) {
        return word(error) + ", bad_wr = wr_id " + std::to_string(n) + "; accepted " + std::to_string(n);
      }
    }
  }

  Side side;
  struct ibv_srq_init_attr init {};
  struct ibv_srq* srq = nullptr;
  QpPtr qp;
};

}  // namespace

std::string create_srq(const struct ibv_srq_attr& attr) {
  Shared shared(attr);
  if (shared.srq == nullptr) return word(errno);
  return "ok, max_wr=" + std::to_string(shared.init.attr.max_wr) +
         ", max_sge=" + std::to_string(shared.init.attr.max_sge);
}

std::string fill_srq() { return Shared().fill(); }

std::string modify_srq(const struct ibv_srq_attr& attr, int mask) {
  Shared shared;
  shared.fill();
  struct ibv_srq_attr wanted = attr;
  return word(impl::ibv_modify_srq(shared.srq, &wanted, mask));
}

std::string error_with_srq() {
  Shared shared;
  shared.attach_qp();
  EXPECT_EQ(set_state(shared.qp.get(), IBV_QPS_ERR), 0);
  const std::string heard = events(shared.side);
  return say({state_of(shared.qp.get()) == IBV_QPS_ERR ? "ERR" : "another state", "async: " + heard});
}

std::string dealloc_pd_with_srq() {
  const ContextPtr context = open_device(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(context.get());
  struct ibv_srq_init_attr init {};
  init.attr = kSixteen;
  struct ibv_srq* srq = impl::ibv_create_srq(pd, &init);
  std::string tried = word(v().ibv_dealloc_pd(pd));
  EXPECT_EQ(impl::ibv_destroy_srq(srq), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
  return tried;
}

std::string destroy_used_srq() {
  Shared shared;
  shared.attach_qp();
  return word(impl::ibv_destroy_srq(shared.srq));
}

}  // namespace uroce::conformance
