// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/attributes.h"

#include <cerrno>

#include "verbs/rdmacm/events.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

/// The connection has begun, and nobody has ended it.
bool is_alive(cm::State state) {
  switch (state) {
    case cm::State::kReqSent:
    case cm::State::kRepReceived:
    case cm::State::kReqReceived:
    case cm::State::kRepSent:
    case cm::State::kEstablished:
      return true;
    default:
      return false;
  }
}

/// Before there is a connection, and of datagram ids always: the same for every state that is asked for.
void fill_unconnected(const Id& id, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  out.port_num = kPort;
  if (is_datagram(id)) {
    out.qp_attr_mask |= IBV_QP_QKEY;
    out.qkey = kUdpQkey;
  } else {
    out.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
  }
}

int fill_init(const cm::ConnectionInfo& info, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (info.max_dest_rd_atomic > 0) out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  out.port_num = kPort;
  return 0;
}

int fill_rtr(const Id& id, const cm::ConnectionInfo& info, ib_uverbs_qp_attr& out) {
  if (!info.peer_known) return EINVAL;
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  out.ah_attr = address_vector(info.remote.address, id.nic.gid_index, info.path.tclass, info.path.flow_label);
  out.path_mtu = info.path.mtu;
  out.dest_qp_num = info.remote_qpn;
  out.rq_psn = info.local_psn;
  if (info.transport != cm::Transport::kRc) return 0;
  out.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  out.max_dest_rd_atomic = info.max_dest_rd_atomic;
  return 0;
}

int fill_rts(const Id& id, const cm::ConnectionInfo& info, ib_uverbs_qp_attr& out) {
  if (!info.peer_known) return EINVAL;
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  out.sq_psn = info.remote_psn;
  if (info.transport != cm::Transport::kRc) return 0;
  out.qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  out.timeout = id.options.ack_timeout.value_or(info.ack_timeout);
  out.retry_cnt = info.retry_count;
  out.rnr_retry = info.rnr_retry_count;
  out.max_rd_atomic = info.max_rd_atomic;
  return 0;
}

}  // namespace

int fill_qp_attributes(const Id& id, const std::optional<cm::ConnectionInfo>& info, std::uint32_t state,
                       ib_uverbs_qp_attr& out) {
  out.qp_state = static_cast<__u8>(state);
  if (!info || is_datagram(id)) {
    fill_unconnected(id, out);
    return 0;
  }
  if (!is_alive(info->state)) return EINVAL;
  switch (state) {
    case IBV_QPS_INIT:
      return fill_init(*info, out);
    case IBV_QPS_RTR:
      return fill_rtr(id, *info, out);
    case IBV_QPS_RTS:
      return fill_rts(id, *info, out);
    default:
      return EINVAL;
  }
}

}  // namespace uroce::rdmacm
