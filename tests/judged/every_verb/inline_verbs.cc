// SPDX-License-Identifier: Apache-2.0
// The calls of the verbs behind a context: slots.def, ibv_wr_*, ibv_start_poll().
#include <cerrno>
#include <climits>

#include "tests/judged/every_verb/lab.h"

namespace uroce::every_verb {
namespace {

struct ibv_srq* make_srq(Lab& lab) {
  struct ibv_srq_init_attr init {};
  init.attr = {8, 2, 0};
  return ibv_create_srq(lab.pd, &init);
}

bool destroyed(struct ibv_srq* srq) { return srq != nullptr && ibv_destroy_srq(srq) == 0; }

}  // namespace

namespace ops {

bool alloc_mw(Lab& lab) {
  struct ibv_mw* const odd = ::ibv_alloc_mw(lab.pd, number<enum ibv_mw_type>(77));
  REQUIRE(odd == nullptr);
  struct ibv_mw* const mw = ::ibv_alloc_mw(lab.pd, IBV_MW_TYPE_1);
  return mw != nullptr && ::ibv_dealloc_mw(mw) == 0;
}

bool bind_mw(Lab& lab) {
  struct ibv_mw* const mw = ::ibv_alloc_mw(lab.pd, IBV_MW_TYPE_1);
  if (mw == nullptr) return false;
  struct ibv_mr* const mr = ::ibv_reg_mr(lab.pd, lab.memory, 4096, kAccess | IBV_ACCESS_MW_BIND);
  REQUIRE(mr != nullptr);
  struct ibv_mw_bind bind {};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, reinterpret_cast<std::uintptr_t>(lab.memory), 64, IBV_ACCESS_REMOTE_READ};
  struct ibv_qp* const fresh = lab.make_qp(IBV_QPT_RC);
  REQUIRE(::ibv_bind_mw(fresh, mw, &bind) != 0);  // Not in RTS.
  REQUIRE(::ibv_destroy_qp(fresh) == 0);
  const bool works = ::ibv_bind_mw(lab.a, mw, &bind) == 0 && lab.completion(lab.cq).status == IBV_WC_SUCCESS;
  REQUIRE(::ibv_dealloc_mw(mw) == 0);
  REQUIRE(::ibv_dereg_mr(mr) == 0);
  return works;
}

bool dealloc_mw(Lab& lab) { return alloc_mw(lab); }

bool poll_cq(Lab& lab) {
  struct ibv_wc wc {};
  REQUIRE(::ibv_poll_cq(lab.cq, 0, nullptr) == 0);
  REQUIRE(::ibv_poll_cq(lab.cq, -5, nullptr) <= 0);
  return ::ibv_poll_cq(lab.cq, 1, &wc) == 0;
}

bool req_notify_cq(Lab& lab) { return ::ibv_req_notify_cq(lab.cq, 7) == 0; }

bool post_srq_recv(Lab& lab) {
  struct ibv_srq* const srq = make_srq(lab);
  if (srq == nullptr) return false;
  struct ibv_sge sge = lab.sge(0, 64);
  struct ibv_recv_wr wr {};
  struct ibv_recv_wr* bad = nullptr;
  wr.num_sge = INT_MAX;
  REQUIRE(::ibv_post_srq_recv(srq, &wr, &bad) != 0 && bad == &wr);
  wr.num_sge = -1;
  REQUIRE(::ibv_post_srq_recv(srq, &wr, &bad) != 0);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const bool works = ::ibv_post_srq_recv(srq, &wr, &bad) == 0;
  return destroyed(srq) && works;
}

bool post_send(Lab& lab) {
  struct ibv_sge sge = lab.sge(0, 8);
  struct ibv_send_wr wr {};
  struct ibv_send_wr* bad = nullptr;
  REQUIRE(::ibv_post_send(lab.a, nullptr, &bad) == 0);
  wr.opcode = number<enum ibv_wr_opcode>(99);
  REQUIRE(::ibv_post_send(lab.a, &wr, &bad) != 0 && bad == &wr);
  wr.opcode = IBV_WR_SEND;
  wr.num_sge = INT_MAX;
  REQUIRE(::ibv_post_send(lab.a, &wr, &bad) != 0);
  wr.num_sge = INT_MIN;
  REQUIRE(::ibv_post_send(lab.a, &wr, &bad) != 0);
  wr.num_sge = 0;
  wr.send_flags = ~0u;
  REQUIRE(::ibv_post_send(lab.a, &wr, &bad) != 0);
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.opcode = IBV_WR_BIND_MW;  // Without a window.
  REQUIRE(::ibv_post_send(lab.a, &wr, &bad) != 0 || lab.completion(lab.cq).status != IBV_WC_SUCCESS);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(lab.memory + 64);
  wr.wr.rdma.rkey = lab.mr->rkey;
  return ::ibv_post_send(lab.b, &wr, &bad) == 0 && lab.completion(lab.cq).status == IBV_WC_SUCCESS;
}

bool post_recv(Lab& lab) {
  struct ibv_recv_wr wr {};
  struct ibv_recv_wr* bad = nullptr;
  REQUIRE(::ibv_post_recv(lab.b, nullptr, &bad) == 0);
  wr.num_sge = INT_MAX;
  REQUIRE(::ibv_post_recv(lab.b, &wr, &bad) != 0 && bad == &wr);
  struct ibv_sge sge = lab.sge(0, 64);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return ::ibv_post_recv(lab.b, &wr, &bad) == 0;
}

}  // namespace ops

namespace extended {

bool query_port(Lab& lab) {
  struct ibv_port_attr attr {};
  REQUIRE(___ibv_query_port(lab.context, 200, &attr) != 0);
  return ___ibv_query_port(lab.context, 1, &attr) == 0 && attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

bool query_device_ex(Lab& lab) {
  struct ibv_device_attr_ex attr {};
  struct ibv_query_device_ex_input input {};
  input.comp_mask = 1;
  REQUIRE(verbs_get_ctx(lab.context)->query_device_ex(lab.context, &input, &attr, 4) != 0);
  REQUIRE(verbs_get_ctx(lab.context)->query_device_ex(lab.context, nullptr, &attr, 4) == 0);
  return ::ibv_query_device_ex(lab.context, nullptr, &attr) == 0 && attr.hca_core_clock != 0;
}

bool query_rt_values(Lab& lab) {
  struct ibv_values_ex values {};
  values.comp_mask = ~0u;
  REQUIRE(::ibv_query_rt_values_ex(lab.context, &values) != 0);
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return ::ibv_query_rt_values_ex(lab.context, &values) == 0 && values.raw_clock.tv_nsec != 0;
}

bool create_cq_ex(Lab& lab) {
  struct ibv_cq_init_attr_ex attr {};
  REQUIRE(::ibv_create_cq_ex(lab.context, &attr) == nullptr);  // No entries.
  attr.cqe = UINT_MAX;
  REQUIRE(::ibv_create_cq_ex(lab.context, &attr) == nullptr);
  attr.cqe = 4;
  attr.wc_flags = ~std::uint64_t{0};
  REQUIRE(::ibv_create_cq_ex(lab.context, &attr) == nullptr);
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  attr.comp_vector = UINT_MAX;
  REQUIRE(::ibv_create_cq_ex(lab.context, &attr) == nullptr);
  attr.comp_vector = 0;
  attr.comp_mask = ~0u;
  REQUIRE(::ibv_create_cq_ex(lab.context, &attr) == nullptr);
  attr.comp_mask = 0;
  struct ibv_cq_ex* const cq = ::ibv_create_cq_ex(lab.context, &attr);
  return cq != nullptr && ::ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0;
}

bool modify_cq(Lab& lab) {
  struct ibv_modify_cq_attr attr {};
  REQUIRE(::ibv_modify_cq(lab.cq, &attr) != 0);
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {65535, 65535};
  REQUIRE(::ibv_modify_cq(lab.cq, &attr) == 0);
  attr.moderate = {};
  return ::ibv_modify_cq(lab.cq, &attr) == 0;
}

bool create_qp_ex(Lab& lab) {
  struct ibv_qp_init_attr_ex init {};
  init.send_cq = init.recv_cq = lab.cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = ~0u;
  REQUIRE(::ibv_create_qp_ex(lab.context, &init) == nullptr);
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  REQUIRE(::ibv_create_qp_ex(lab.context, &init) == nullptr);  // Without one.
  init.pd = lab.pd;
  init.send_ops_flags = ~std::uint64_t{0};
  REQUIRE(::ibv_create_qp_ex(lab.context, &init) == nullptr);
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  init.qp_type = number<enum ibv_qp_type>(-1);
  REQUIRE(::ibv_create_qp_ex(lab.context, &init) == nullptr);
  init.qp_type = IBV_QPT_RC;
  struct ibv_qp* const qp = ::ibv_create_qp_ex(lab.context, &init);
  return qp != nullptr && ::ibv_destroy_qp(qp) == 0;
}

bool create_srq_ex(Lab& lab) {
  struct ibv_srq_init_attr_ex init {};
  init.attr = {8, 2, 0};
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
  init.srq_type = IBV_SRQT_XRC;
  init.pd = lab.pd;
  REQUIRE(::ibv_create_srq_ex(lab.context, &init) == nullptr);
  init.comp_mask = 0;
  REQUIRE(::ibv_create_srq_ex(lab.context, &init) == nullptr);
  init.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  return destroyed(::ibv_create_srq_ex(lab.context, &init));
}

bool get_srq_num(Lab& lab) {
  struct ibv_srq* const srq = make_srq(lab);
  if (srq == nullptr) return false;
  std::uint32_t srq_number = 0;
  const bool works = ::ibv_get_srq_num(srq, &srq_number) == 0;
  return destroyed(srq) && works;
}

bool alloc_td(Lab& lab) {
  struct ibv_td_init_attr init {};
  init.comp_mask = ~0u;
  REQUIRE(::ibv_alloc_td(lab.context, &init) == nullptr);
  init.comp_mask = 0;
  struct ibv_td* const td = ::ibv_alloc_td(lab.context, &init);
  return td != nullptr && ::ibv_dealloc_td(td) == 0;
}

bool dealloc_td(Lab& lab) { return alloc_td(lab); }

bool alloc_parent_domain(Lab& lab) {
  struct ibv_parent_domain_init_attr init {};
  REQUIRE(::ibv_alloc_parent_domain(lab.context, &init) == nullptr);
  init.pd = lab.pd;
  init.comp_mask = ~0u;
  REQUIRE(::ibv_alloc_parent_domain(lab.context, &init) == nullptr);
  init.comp_mask = 0;
  struct ibv_pd* const parent = ::ibv_alloc_parent_domain(lab.context, &init);
  return parent != nullptr && ::ibv_dealloc_pd(parent) == 0;
}

bool alloc_null_mr(Lab& lab) {
  struct ibv_mr* const null = ::ibv_alloc_null_mr(lab.pd);
  return null != nullptr && ::ibv_dereg_mr(null) == 0;
}

bool advise_mr(Lab& lab) {
  struct ibv_sge sge = lab.sge(0, 64);
  REQUIRE(::ibv_advise_mr(lab.pd, number<enum ibv_advise_mr_advice>(55), 0, &sge, 1) != 0);
  REQUIRE(::ibv_advise_mr(lab.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, ~0u, &sge, 1) != 0);
  REQUIRE(::ibv_advise_mr(lab.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0) != 0);
  sge.lkey = 0;
  REQUIRE(::ibv_advise_mr(lab.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) != 0);
  sge.lkey = lab.mr->lkey;
  return ::ibv_advise_mr(lab.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == 0;
}

// What is not offered: the inline verbs say so, and most could not be called with anything, as there is nothing to
// create first.
bool open_qp(Lab& lab) {
  struct ibv_qp_open_attr attr {};
  return ::ibv_open_qp(lab.context, &attr) != nullptr;
}
bool modify_qp_rate_limit(Lab& lab) {
  struct ibv_qp_rate_limit_attr attr {};
  return ::ibv_modify_qp_rate_limit(lab.a, &attr) == 0;
}
bool post_srq_ops(Lab& lab) {
  struct ibv_srq* const srq = make_srq(lab);
  if (srq == nullptr) return false;
  struct ibv_ops_wr op {};
  struct ibv_ops_wr* bad = nullptr;
  const bool works = ::ibv_post_srq_ops(srq, &op, &bad) == 0;
  return destroyed(srq) && works;
}
bool alloc_dm(Lab& lab) {
  struct ibv_alloc_dm_attr attr {};
  return ::ibv_alloc_dm(lab.context, &attr) != nullptr;
}
bool free_dm(Lab& lab) { return alloc_dm(lab); }
bool reg_dm_mr(Lab& lab) { return verbs_get_ctx(lab.context)->reg_dm_mr != nullptr; }
bool open_xrcd(Lab& lab) {
  struct ibv_xrcd_init_attr attr {};
  return ::ibv_open_xrcd(lab.context, &attr) != nullptr;
}
bool close_xrcd(Lab& lab) { return open_xrcd(lab); }
bool create_wq(Lab& lab) {
  struct ibv_wq_init_attr attr {};
  return ::ibv_create_wq(lab.context, &attr) != nullptr;
}
bool modify_wq(Lab& lab) { return create_wq(lab); }
bool destroy_wq(Lab& lab) { return create_wq(lab); }
bool create_rwq_ind_table(Lab& lab) {
  struct ibv_rwq_ind_table_init_attr attr {};
  return ::ibv_create_rwq_ind_table(lab.context, &attr) != nullptr;
}
bool destroy_rwq_ind_table(Lab& lab) { return create_rwq_ind_table(lab); }
bool ibv_create_flow(Lab& lab) {
  struct ibv_flow_attr attr {};
  return ::ibv_create_flow(lab.a, &attr) != nullptr;
}
bool ibv_destroy_flow(Lab& lab) { return ibv_create_flow(lab); }
bool create_flow_action_esp(Lab& lab) {
  struct ibv_flow_action_esp_attr attr {};
  return ::ibv_create_flow_action_esp(lab.context, &attr) != nullptr;
}
bool modify_flow_action_esp(Lab& lab) { return create_flow_action_esp(lab); }
bool destroy_flow_action(Lab& lab) { return create_flow_action_esp(lab); }
bool create_counters(Lab& lab) {
  struct ibv_counters_init_attr attr {};
  return ::ibv_create_counters(lab.context, &attr) != nullptr;
}
bool destroy_counters(Lab& lab) { return create_counters(lab); }
bool attach_counters_point_flow(Lab& lab) { return create_counters(lab); }
bool read_counters(Lab& lab) { return create_counters(lab); }

}  // namespace extended

bool builders(Lab& lab) {
  struct ibv_qp_init_attr_ex init {};
  init.send_cq = init.recv_cq = lab.cq;
  init.cap = {4, 4, 1, 1, 16};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = lab.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
  struct ibv_qp* const base = ::ibv_create_qp_ex(lab.context, &init);
  REQUIRE(base != nullptr);
  struct ibv_qp_ex* const qp = ::ibv_qp_to_qp_ex(base);
  REQUIRE(qp != nullptr);
  lab.connect(base, base);
  // Each of these, in a list of its own, must be refused at the end; before a list begins, too.
  using Build = void (*)(struct ibv_qp_ex*);
  const Build wrong[] = {
      [](struct ibv_qp_ex* q) { ibv_wr_atomic_cmp_swp(q, 1, 2, 3, 4); },
      [](struct ibv_qp_ex* q) { ibv_wr_atomic_fetch_add(q, 1, 2, 3); },
      [](struct ibv_qp_ex* q) { ibv_wr_bind_mw(q, nullptr, 1, nullptr); },
      [](struct ibv_qp_ex* q) { ibv_wr_local_inv(q, 1); },
      [](struct ibv_qp_ex* q) { ibv_wr_rdma_read(q, 1, 2); },
      [](struct ibv_qp_ex* q) { ibv_wr_rdma_write_imm(q, 1, 2, 3); },
      [](struct ibv_qp_ex* q) { ibv_wr_send_imm(q, 1); },
      [](struct ibv_qp_ex* q) { ibv_wr_send_inv(q, 1); },
      [](struct ibv_qp_ex* q) { ibv_wr_send_tso(q, nullptr, 1, 1); },
      [](struct ibv_qp_ex* q) { q->wr_atomic_write(q, 1, 2, nullptr); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_xrc_srqn(q, 1); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_ud_addr(q, nullptr, 1, 1); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_sge(q, 1, 2, 3); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_sge_list(q, SIZE_MAX, nullptr); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_inline_data(q, nullptr, SIZE_MAX); },
      [](struct ibv_qp_ex* q) { ibv_wr_set_inline_data_list(q, SIZE_MAX, nullptr); },
      [](struct ibv_qp_ex* q) {
        ibv_wr_send(q);
        ibv_wr_set_inline_data(q, nullptr, SIZE_MAX);
      },
      [](struct ibv_qp_ex* q) {
        ibv_wr_send(q);
        ibv_wr_set_sge_list(q, SIZE_MAX, nullptr);
      },
  };
  for (const Build build : wrong) {
    build(qp);
    REQUIRE(ibv_wr_complete(qp) != 0);
    ibv_wr_start(qp);
    build(qp);
    REQUIRE(ibv_wr_complete(qp) != 0);
  }
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  qp->wr_id = 5;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, lab.mr->rkey, reinterpret_cast<std::uintptr_t>(lab.memory));
  std::uint8_t byte = 7;
  ibv_wr_set_inline_data(qp, &byte, 1);
  REQUIRE(ibv_wr_complete(qp) == 0);
  const bool works = lab.completion(lab.cq).status == IBV_WC_SUCCESS;
  REQUIRE(::ibv_destroy_qp(base) == 0);
  return works;
}

bool readers(Lab& lab) {
  struct ibv_cq_init_attr_ex attr {};
  attr.cqe = 8;
  struct ibv_cq_ex* const cq = ::ibv_create_cq_ex(lab.context, &attr);
  REQUIRE(cq != nullptr);
  struct ibv_poll_cq_attr poll {};
  poll.comp_mask = ~0u;
  REQUIRE(::ibv_start_poll(cq, &poll) != 0);
  poll.comp_mask = 0;
  const bool empty = ::ibv_start_poll(cq, &poll) == ENOENT && ::ibv_next_poll(cq) == ENOENT;
  // Nothing to read is no reason to crash.
  ibv_end_poll(cq);
  struct ibv_wc_tm_info info {};
  ibv_wc_read_opcode(cq);
  ibv_wc_read_vendor_err(cq);
  ibv_wc_read_byte_len(cq);
  ibv_wc_read_imm_data(cq);
  ibv_wc_read_invalidated_rkey(cq);
  ibv_wc_read_qp_num(cq);
  ibv_wc_read_src_qp(cq);
  ibv_wc_read_wc_flags(cq);
  ibv_wc_read_slid(cq);
  ibv_wc_read_sl(cq);
  ibv_wc_read_dlid_path_bits(cq);
  ibv_wc_read_completion_ts(cq);
  ibv_wc_read_completion_wallclock_ns(cq);
  ibv_wc_read_cvlan(cq);
  ibv_wc_read_flow_tag(cq);
  ibv_wc_read_tm_info(cq, &info);
  return ::ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && empty;
}

}  // namespace uroce::every_verb
