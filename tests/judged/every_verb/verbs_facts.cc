// SPDX-License-Identifier: Apache-2.0
// Prints what the device says of itself, for docs/verbs.md: one fact a line, its words separated by tabs.
//   slot   verb  yes|no
//   op     RC|UC|UD  operation  yes|no
//   cap    name  value
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "tests/judged/every_verb/lab.h"
#include "verbs/ibverbs/catalogue/newer.h"

namespace uroce::every_verb {
namespace {

void print_slots(Lab& lab) {
  const struct verbs_context& extended = *verbs_get_ctx(lab.context);
  const struct ibv_context_ops& ops = lab.context->ops;
#define UROCE_OP(member, verb, ...) std::printf("slot\t%s\t%s\n", verb, ops.member != nullptr ? "yes" : "no");
#define UROCE_NOT_OFFERED(member, verb) std::printf("slot\t%s\t%s\n", verb, extended.member != nullptr ? "yes" : "no");
#define UROCE_EXTENDED(member, verb, ...) UROCE_NOT_OFFERED(member, verb)
#include "verbs/ibverbs/catalogue/slots.def"
}

void print_ops(Lab& lab) {
  struct Op {
    const char* name;
    std::uint64_t flag;
  };
  constexpr Op kOps[] = {{"SEND", IBV_QP_EX_WITH_SEND},
                         {"SEND with immediate", IBV_QP_EX_WITH_SEND_WITH_IMM},
                         {"SEND with invalidate", IBV_QP_EX_WITH_SEND_WITH_INV},
                         {"RDMA WRITE", IBV_QP_EX_WITH_RDMA_WRITE},
                         {"RDMA WRITE with immediate", IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
                         {"RDMA READ", IBV_QP_EX_WITH_RDMA_READ},
                         {"compare and swap", IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
                         {"fetch and add", IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
                         {"bind a memory window", IBV_QP_EX_WITH_BIND_MW},
                         {"local invalidate", IBV_QP_EX_WITH_LOCAL_INV},
                         {"TSO", IBV_QP_EX_WITH_TSO},
                         {"ATOMIC WRITE", IBV_QP_EX_WITH_ATOMIC_WRITE},
                         {"FLUSH (rdma-core 45 and later)", uroce::ibv::newer::kQpExWithFlush}};
  struct Type {
    const char* name;
    enum ibv_qp_type type;
  };
  for (const Op& op : kOps) {
    for (const Type& type : {Type{"RC", IBV_QPT_RC}, Type{"UC", IBV_QPT_UC}, Type{"UD", IBV_QPT_UD}}) {
      struct ibv_qp_init_attr_ex init {};
      init.send_cq = init.recv_cq = lab.cq;
      init.cap = {1, 1, 1, 1, 0};
      init.qp_type = type.type;
      init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.pd = lab.pd;
      init.send_ops_flags = op.flag;
      struct ibv_qp* const qp = ibv_create_qp_ex(lab.context, &init);
      std::printf("op\t%s\t%s\t%s\n", type.name, op.name, qp != nullptr ? "yes" : "no");
      if (qp != nullptr) REQUIRE(ibv_destroy_qp(qp) == 0);
    }
  }
}

void cap(const char* name, std::uint64_t value) { std::printf("cap\t%s\t%" PRIu64 "\n", name, value); }
void flags(const char* name, std::uint64_t value) { std::printf("cap\t%s\t0x%" PRIx64 "\n", name, value); }

void print_capabilities(Lab& lab) {
  struct ibv_device_attr_ex attr {};
  REQUIRE(ibv_query_device_ex(lab.context, nullptr, &attr) == 0);
#define CAP(member) cap(#member, static_cast<std::uint64_t>(attr.orig_attr.member))
  CAP(max_qp);
  CAP(max_qp_wr);
  CAP(max_sge);
  CAP(max_sge_rd);
  CAP(max_cq);
  CAP(max_cqe);
  CAP(max_mr);
  CAP(max_mr_size);
  CAP(max_pd);
  CAP(max_ah);
  CAP(max_mw);
  CAP(max_srq);
  CAP(max_srq_wr);
  CAP(max_srq_sge);
  CAP(max_mcast_grp);
  CAP(max_mcast_qp_attach);
  CAP(max_qp_rd_atom);
  CAP(max_qp_init_rd_atom);
  CAP(max_pkeys);
  CAP(atomic_cap);
  CAP(local_ca_ack_delay);
#undef CAP
  flags("device_cap_flags", attr.orig_attr.device_cap_flags);
  flags("device_cap_flags_ex", attr.device_cap_flags_ex);
  flags("odp_caps.general_caps", attr.odp_caps.general_caps);
  flags("rc_odp_caps", attr.odp_caps.per_transport_caps.rc_odp_caps);
  flags("uc_odp_caps", attr.odp_caps.per_transport_caps.uc_odp_caps);
  flags("ud_odp_caps", attr.odp_caps.per_transport_caps.ud_odp_caps);
  flags("completion_timestamp_mask", attr.completion_timestamp_mask);
  cap("hca_core_clock (kHz)", attr.hca_core_clock);
  cap("cq_mod_caps.max_cq_count", attr.cq_mod_caps.max_cq_count);
  cap("cq_mod_caps.max_cq_period (us)", attr.cq_mod_caps.max_cq_period);
  cap("tso_caps.max_tso", attr.tso_caps.max_tso);
  cap("rss_caps.supported_qpts", attr.rss_caps.supported_qpts);
  cap("packet_pacing_caps.qp_rate_limit_max", attr.packet_pacing_caps.qp_rate_limit_max);
  cap("tm_caps.max_num_tags", attr.tm_caps.max_num_tags);
  cap("max_dm_size", attr.max_dm_size);
  cap("phys_port_cnt_ex", attr.phys_port_cnt_ex);
}

}  // namespace
}  // namespace uroce::every_verb

int main() {
  setenv("UROCE_DEVICES", "1", 1);
  uroce::every_verb::Lab lab;
  uroce::every_verb::print_slots(lab);
  uroce::every_verb::print_ops(lab);
  uroce::every_verb::print_capabilities(lab);
  return 0;
}
