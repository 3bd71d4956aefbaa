// SPDX-License-Identifier: Apache-2.0
// A list of RC queue pairs and its way from RESET to RTS.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/rdma/diagnosis.h"
#include "tools/rdma/failure.h"
#include "tools/rdma/rdma.h"
#include "tools/rdma/steps.h"
#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

constexpr std::size_t kTracedQps = 4;

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

void modify(ibv_qp* qp, std::size_t index, ibv_qp_attr& attr, int mask, std::string_view to) {
  const int error = ibv_modify_qp(qp, &attr, mask);
  if (error == 0) return;
  throw Failure(kExitUsage, fmt::format("can't bring QP {} to {}: {}", index, to, verbs_error(error)));
}

std::string_view state_name(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET:
      return "RESET";
    case IBV_QPS_INIT:
      return "INIT";
    case IBV_QPS_RTR:
      return "RTR";
    case IBV_QPS_RTS:
      return "RTS";
    case IBV_QPS_SQD:
      return "SQD";
    case IBV_QPS_SQE:
      return "SQE";
    case IBV_QPS_ERR:
      return "ERR";
    case IBV_QPS_UNKNOWN:
      break;
  }
  return "?";
}

}  // namespace

void create_qp_list(RdmaResources& r, std::uint32_t count, const QueueSizes& sizes) {
  r.qps.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = r.cq;
    init.recv_cq = r.cq;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 0;
    init.cap.max_send_wr = sizes.send_wrs;
    init.cap.max_recv_wr = sizes.receive_wrs;
    init.cap.max_send_sge = sizes.sges;
    init.cap.max_recv_sge = sizes.sges;
    init.cap.max_inline_data = sizes.inline_bytes;
    ibv_qp* qp = ibv_create_qp(r.pd, &init);
    if (qp == nullptr) {
      const int error = errno;
      throw Failure(kExitUsage,
                    fmt::format("can't create QP {} of {} (queues of {} sends and {} receives, {} SGEs{}): {}", i,
                                count, sizes.send_wrs, sizes.receive_wrs, sizes.sges,
                                sizes.inline_bytes > 0 ? fmt::format(", {} bytes inline", sizes.inline_bytes) : "",
                                verbs_error(error)));
    }
    r.qps.push_back(qp);
  }
  trace_step(Step::kQpList, count, sizes.send_wrs, sizes.receive_wrs);
  print_qp_state(r);
}

void modify_qps_to_init(RdmaResources& r) {
  const auto before = traced_states(r);
  trace_step(Step::kInit);
  for (std::size_t i = 0; i < r.qps.size(); ++i) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = 0;
    attr.port_num = r.choice.ib_port;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    modify(r.qps[i], i, attr, kInitMask, "INIT");
  }
  print_qp_state(r, before);
}

void modify_qps_to_rtr(RdmaResources& r, const PeerMetadata& peer, const RtrAttributes& attributes) {
  const auto before = traced_states(r);
  trace_step(Step::kRtr);
  for (std::size_t i = 0; i < r.qps.size(); ++i) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = attributes.mtu;
    attr.dest_qp_num = peer.qps[i].qpn;
    attr.rq_psn = peer.qps[i].psn;
    attr.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
    attr.min_rnr_timer = attributes.min_rnr_timer;
    // RoCE routes by GID, always: a global route header is not an option there.
    attr.ah_attr.is_global = 1;
    std::copy_n(peer.gid, 16, attr.ah_attr.grh.dgid.raw);
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(r.choice.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.dlid = peer.lid;  // InfiniBand only
    attr.ah_attr.port_num = r.choice.ib_port;
    modify(r.qps[i], i, attr, kRtrMask, "RTR");
  }
  print_qp_state(r, before);
}

void modify_qps_to_rts(RdmaResources& r, const PeerMetadata& local, const RtsAttributes& attributes) {
  const auto before = traced_states(r);
  trace_step(Step::kRts, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry);
  for (std::size_t i = 0; i < r.qps.size(); ++i) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = attributes.timeout;
    attr.retry_cnt = attributes.retry_cnt;
    attr.rnr_retry = attributes.rnr_retry;
    attr.sq_psn = local.qps[i].psn;
    attr.max_rd_atomic = attributes.max_rd_atomic;
    modify(r.qps[i], i, attr, kRtsMask, "RTS");
  }
  print_qp_state(r, before);
}

std::string describe_qp_state(const RdmaResources& r, std::size_t index) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  const int mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU | IBV_QP_AV |
                   IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_query_qp(r.qps[index], &attr, mask, &init)) {
    return fmt::format("QP {} (qpn {:#x}): can't query it: {}", index, r.qps[index]->qp_num, std::strerror(error));
  }
  std::string line = fmt::format("QP {} (qpn {:#x}): {}", index, r.qps[index]->qp_num, state_name(attr.qp_state));
  if (attr.qp_state == IBV_QPS_INIT) {
    line += fmt::format(", port {}, P_Key index {}, peers may:{}{}{}", attr.port_num, attr.pkey_index,
                        attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE ? " WRITE" : "",
                        attr.qp_access_flags & IBV_ACCESS_REMOTE_READ ? " READ" : "",
                        attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC ? " atomics" : "");
  }
  if (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS) {
    char gid[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, attr.ah_attr.grh.dgid.raw, gid, sizeof gid);
    line += fmt::format(", to qpn {:#x} at {}, expects psn {:#x}, mtu {}", attr.dest_qp_num, gid, attr.rq_psn,
                        128 << attr.path_mtu);
  }
  if (attr.qp_state == IBV_QPS_RTS) line += fmt::format(", sends from psn {:#x}", attr.sq_psn);
  return line;
}

std::vector<std::string> traced_states(const RdmaResources& r) {
  std::vector<std::string> states;
  for (std::size_t i = 0; g_trace && i < std::min(r.qps.size(), kTracedQps); ++i) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    states.emplace_back(ibv_query_qp(r.qps[i], &attr, IBV_QP_STATE, &init) == 0 ? state_name(attr.qp_state) : "?");
  }
  return states;
}

void print_qp_state(const RdmaResources& r, std::span<const std::string> before) {
  if (!g_trace) return;
  const std::size_t shown = std::min(r.qps.size(), kTracedQps);
  for (std::size_t i = 0; i < shown; ++i) {
    trace("    {}{}", describe_qp_state(r, i), i < before.size() ? " (was " + before[i] + ")" : "");
  }
  if (shown < r.qps.size()) trace("    ... and {} more", r.qps.size() - shown);
}

}  // namespace uroce::tools
