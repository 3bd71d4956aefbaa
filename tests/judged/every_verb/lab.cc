// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/every_verb/lab.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::every_verb {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // Memcheck is slow.

}  // namespace

void require(bool works, const char* what, int line) {
  if (works) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, what, std::strerror(errno));
  std::exit(1);
}

Lab::Lab() : memory(static_cast<std::uint8_t*>(std::aligned_alloc(4096, kMemory))) {
  std::memset(memory, 0, kMemory);
  REQUIRE((list = ibv_get_device_list(nullptr)) != nullptr && list[0] != nullptr);
  REQUIRE((context = ibv_open_device(list[0])) != nullptr);
  REQUIRE((pd = ibv_alloc_pd(context)) != nullptr);
  REQUIRE((channel = ibv_create_comp_channel(context)) != nullptr);
  REQUIRE((cq = ibv_create_cq(context, 256, this, channel, 0)) != nullptr);
  REQUIRE((mr = ibv_reg_mr(pd, memory, kMemory, kAccess)) != nullptr);
  REQUIRE(ibv_query_gid(context, 1, 1, &gid) == 0);
  a = make_qp(IBV_QPT_RC);
  b = make_qp(IBV_QPT_RC);
  connect(a, b);
  connect(b, a);
}

Lab::~Lab() {
  REQUIRE(ibv_destroy_qp(a) == 0);
  REQUIRE(ibv_destroy_qp(b) == 0);
  REQUIRE(ibv_dereg_mr(mr) == 0);
  REQUIRE(ibv_destroy_cq(cq) == 0);
  REQUIRE(ibv_destroy_comp_channel(channel) == 0);
  REQUIRE(ibv_dealloc_pd(pd) == 0);
  REQUIRE(ibv_close_device(context) == 0);
  ibv_free_device_list(list);
  std::free(memory);
}

struct ibv_qp* Lab::make_qp(enum ibv_qp_type type) {
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 16, 4, 4, 64};
  init.qp_type = type;
  struct ibv_qp* const qp = ibv_create_qp(pd, &init);
  REQUIRE(qp != nullptr);
  return qp;
}

struct ibv_ah_attr Lab::ah_attr() const {
  struct ibv_ah_attr attr {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid;
  attr.grh.sgid_index = 1;
  attr.grh.hop_limit = 64;
  return attr;
}

void Lab::connect(struct ibv_qp* qp, const struct ibv_qp* peer) {
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAccess;
  REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr = ah_attr();
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  REQUIRE(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  REQUIRE(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

struct ibv_wc Lab::completion(struct ibv_cq* from) {
  struct ibv_wc wc {};
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  int got = 0;
  while (got == 0 && std::chrono::steady_clock::now() < give_up) got = ibv_poll_cq(from, 1, &wc);
  REQUIRE(got == 1);
  return wc;
}

}  // namespace uroce::every_verb
