// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/conformance/not_offered.h"

#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::conformance {
namespace {

/// "NAME: errno", or "NAME: ok" when it was made; then these rows have to be written anew.
template <class Object>
std::string attempt(const char* name, Object* made) {
  const int error = errno;
  return std::string(name) + ": " + (made == nullptr ? word(error) : "ok");
}

}  // namespace

std::string try_qp(enum ibv_qp_type type) {
  Side side(0);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = side.cq;
  init.cap = {16, 16, 1, 1, 0};
  init.qp_type = type;
  struct ibv_qp* qp = v().ibv_create_qp(side.pd, &init);
  std::string tried = attempt("create QP", qp);
  if (qp != nullptr) {
    EXPECT_EQ(v().ibv_destroy_qp(qp), 0);
  }
  return tried;
}

std::string try_ah(const struct ibv_ah_attr& attr, bool then_dealloc_pd) {
  Side side(0);
  struct ibv_ah_attr wanted = attr;
  struct ibv_ah* ah = uroce::ibv::impl::ibv_create_ah(side.pd, &wanted);
  if (ah == nullptr) return word(errno);
  const std::string in_use = word(v().ibv_dealloc_pd(side.pd));
  EXPECT_EQ(uroce::ibv::impl::ibv_destroy_ah(ah), 0);
  return then_dealloc_pd ? in_use : "ok";
}

}  // namespace uroce::conformance
