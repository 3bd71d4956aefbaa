// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/objects/convert.h"

#include <arpa/inet.h>

#include <cerrno>
#include <string>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/newer.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/nic/model/names.h"

namespace uroce::ibv {
namespace {

constexpr unsigned int kSendFlags = nic::kFence | nic::kSignaled | nic::kSolicited | nic::kInline;

template <class Wr>
bool copy_sges(const Wr& wr, SgeArray& sges) {
  if (wr.num_sge < 0 || static_cast<std::size_t>(wr.num_sge) > sges.size()) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(wr.num_sge); ++i) {
    const struct ibv_sge& sge = wr.sg_list[i];
    sges[i] = {sge.addr, sge.length, sge.lkey};
  }
  return true;
}

template <class Wr>
int refuse_sges(const Wr& wr) {
  return refuse(EINVAL, "num_sge " + std::to_string(wr.num_sge) + ": the limit is " + std::to_string(nic::kMaxSge));
}

constexpr unsigned int kRights =
    nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic | nic::kMwBind | nic::kFlushGlobal;
/// Huge pages are as good as others.
constexpr unsigned int kHarmless = unsigned{IBV_ACCESS_HUGETLB} | unsigned{IBV_ACCESS_OPTIONAL_RANGE};

constexpr bool exists(int opcode) {
  return (opcode >= IBV_WR_RDMA_WRITE && opcode <= IBV_WR_SEND_WITH_INV) || opcode == newer::kWrFlush ||
         opcode == IBV_WR_ATOMIC_WRITE;
}

int refuse_unknown_access(unsigned int flags) {
  return refuse(EINVAL, "access flags " + std::to_string(flags) + ": one of them does not exist");
}

constexpr std::array kAttrNames{"IBV_QP_STATE",
                                "IBV_QP_CUR_STATE",
                                "IBV_QP_EN_SQD_ASYNC_NOTIFY",
                                "IBV_QP_ACCESS_FLAGS",
                                "IBV_QP_PKEY_INDEX",
                                "IBV_QP_PORT",
                                "IBV_QP_QKEY",
                                "IBV_QP_AV",
                                "IBV_QP_PATH_MTU",
                                "IBV_QP_TIMEOUT",
                                "IBV_QP_RETRY_CNT",
                                "IBV_QP_RNR_RETRY",
                                "IBV_QP_RQ_PSN",
                                "IBV_QP_MAX_QP_RD_ATOMIC",
                                "IBV_QP_ALT_PATH",
                                "IBV_QP_MIN_RNR_TIMER",
                                "IBV_QP_SQ_PSN",
                                "IBV_QP_MAX_DEST_RD_ATOMIC",
                                "IBV_QP_PATH_MIG_STATE",
                                "IBV_QP_CAP",
                                "IBV_QP_DEST_QPN"};

std::string names_of(std::uint32_t bits) {
  std::string names;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    if ((bits >> bit & 1) == 0) continue;
    if (!names.empty()) names += ", ";
    names += bit < kAttrNames.size() ? kAttrNames[bit] : "bit " + std::to_string(bit);
  }
  return names;
}

}  // namespace

void to_wc(const nic::Completion& completion, struct ibv_wc& wc) {
  wc = {};  // The NIC has no errors of its own: vendor_err is 0.
  wc.wr_id = completion.wr_id;
  wc.status = static_cast<enum ibv_wc_status>(completion.status);
  wc.opcode = static_cast<enum ibv_wc_opcode>(completion.opcode);
  wc.byte_len = completion.byte_len;
  if ((completion.flags & nic::kWcWithInv) != 0) {
    wc.invalidated_rkey = completion.invalidated_rkey;
  } else {
    wc.imm_data = htonl(completion.imm);
  }
  wc.qp_num = completion.qpn;
  wc.src_qp = completion.src_qp;
  wc.wc_flags = completion.flags;
  wc.sl = completion.sl;
  wc.slid = slid_of(completion);
}

std::uint16_t slid_of(const nic::Completion& completion) {
  return device_table().lids ? lid_of_end(completion.source_end) : std::uint16_t{0};
}

nic::MwBind from_bind(const struct ibv_mw& mw, std::uint32_t new_key, const struct ibv_mw_bind_info& info) {
  return {.window = mw.rkey,
          .new_key = new_key,
          .lkey = info.mr == nullptr ? 0 : info.mr->lkey,  // 0 is no region's.
          .addr = info.addr,
          .length = info.length,
          .access = info.mw_access_flags};
}

Result<nic::SendWr, nic::Errno> from_wr(const struct ibv_send_wr& wr, SgeArray& sges) {
  const int opcode = raw(wr.opcode);
  if (!exists(opcode)) {
    return Err{refuse(EINVAL, "opcode " + std::to_string(opcode) + " does not exist on this NIC")};
  }
  if ((wr.send_flags & ~kSendFlags) != 0) {
    return Err{
        refuse(EINVAL, "send flags " + std::to_string(wr.send_flags) + ": one of them does not exist on this NIC")};
  }
  if (!copy_sges(wr, sges)) return Err{refuse_sges(wr)};
  nic::SendWr out;
  out.wr_id = wr.wr_id;
  out.op = static_cast<nic::SendOp>(opcode);
  out.flags = wr.send_flags;
  out.sges = {sges.data(), static_cast<std::size_t>(wr.num_sge)};
  switch (out.op) {
    case nic::SendOp::kCompareSwap:
    case nic::SendOp::kFetchAdd:
      out.remote_addr = wr.wr.atomic.remote_addr;
      out.rkey = wr.wr.atomic.rkey;
      out.compare_add = wr.wr.atomic.compare_add;
      out.swap = wr.wr.atomic.swap;
      break;
    case nic::SendOp::kWrite:
    case nic::SendOp::kWriteImm:
    case nic::SendOp::kRead:
    case nic::SendOp::kAtomicWrite:
    case nic::SendOp::kFlush:  // What else it asks for has no place in ibv_send_wr.
      out.remote_addr = wr.wr.rdma.remote_addr;
      out.rkey = wr.wr.rdma.rkey;
      break;
    case nic::SendOp::kBindMw:
      if (wr.bind_mw.mw == nullptr || raw(wr.bind_mw.mw->type) != IBV_MW_TYPE_2) {
        return Err{refuse(EINVAL, "IBV_WR_BIND_MW binds windows of type 2; ibv_bind_mw() those of type 1")};
      }
      out.bind = from_bind(*wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
      out.sges = {};
      return out;
    case nic::SendOp::kLocalInv:
      out.sges = {};
      break;
    default:
      break;
  }
  if (out.op == nic::SendOp::kSendInv || out.op == nic::SendOp::kLocalInv) {
    out.rkey = wr.invalidate_rkey;
  } else {
    out.imm = ntohl(wr.imm_data);
  }
  return out;
}

Result<nic::RecvWr, nic::Errno> from_wr(const struct ibv_recv_wr& wr, SgeArray& sges) {
  if (!copy_sges(wr, sges)) return Err{refuse_sges(wr)};
  return nic::RecvWr{wr.wr_id, {sges.data(), static_cast<std::size_t>(wr.num_sge)}};
}

Result<std::uint32_t, nic::Errno> from_access(unsigned int flags) {
  if ((flags & IBV_ACCESS_ZERO_BASED) != 0) return Err{refuse(EOPNOTSUPP, "the NIC has no zero-based regions")};
  if ((flags & IBV_ACCESS_ON_DEMAND) != 0) return Err{refuse(EOPNOTSUPP, "this region cannot be on demand")};
  if ((flags & nic::kFlushPersistent) != 0) return Err{refuse(EINVAL, "this is not persistent memory")};
  if ((flags & ~(kRights | kHarmless)) != 0) return Err{refuse_unknown_access(flags)};
  return flags & kRights;
}

Result<std::uint32_t, nic::Errno> from_qp_access(unsigned int flags) {
  constexpr unsigned int kOfRegions = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND;
  constexpr unsigned int kOfQps = kRights | nic::kFlushPersistent;
  if ((flags & ~(kOfQps | kHarmless | kOfRegions)) != 0) return Err{refuse_unknown_access(flags)};
  return flags & kOfQps;
}

Result<nic::QpAttr, nic::Errno> from_attr(const struct ibv_qp_attr& attr, int mask, nic::QpState current) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  const auto is_state = [](int state) { return state >= IBV_QPS_RESET && state <= IBV_QPS_ERR; };
  nic::QpAttr out;
  out.state = current;
  out.cur_state = current;
  if (has(IBV_QP_ALT_PATH) || (has(IBV_QP_PATH_MIG_STATE) && raw(attr.path_mig_state) != IBV_MIG_MIGRATED)) {
    return Err{refuse(EOPNOTSUPP, "the NIC has no automatic path migration")};
  }
  if ((has(IBV_QP_STATE) && !is_state(raw(attr.qp_state))) ||
      (has(IBV_QP_CUR_STATE) && !is_state(raw(attr.cur_qp_state)))) {
    return Err{refuse(EINVAL, "there is no such QP state")};
  }
  if (has(IBV_QP_PATH_MTU) && (raw(attr.path_mtu) < IBV_MTU_256 || raw(attr.path_mtu) > IBV_MTU_4096)) {
    return Err{refuse(EINVAL, "path_mtu is an enum ibv_mtu, 1 to 5")};
  }
  if (has(IBV_QP_ACCESS_FLAGS)) {
    const auto access = from_qp_access(attr.qp_access_flags);
    if (!access.ok()) return Err{access.error()};
    out.access = *access;
  }
  if (has(IBV_QP_STATE)) out.state = static_cast<nic::QpState>(raw(attr.qp_state));
  if (has(IBV_QP_CUR_STATE)) out.cur_state = static_cast<nic::QpState>(raw(attr.cur_qp_state));
  if (has(IBV_QP_PATH_MTU)) out.path_mtu = static_cast<std::uint8_t>(raw(attr.path_mtu));
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) out.en_sqd_notify = attr.en_sqd_async_notify != 0;
  // The rest has no value that could be lost on the way; the NIC checks the ranges of what the mask names.
  out.pkey_index = attr.pkey_index;
  out.port = attr.port_num;
  out.timeout = attr.timeout;
  out.retry_cnt = attr.retry_cnt;
  out.rnr_retry = attr.rnr_retry;
  out.min_rnr_timer = attr.min_rnr_timer;
  out.max_rd_atomic = attr.max_rd_atomic;
  out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  out.rq_psn = nic::Psn(attr.rq_psn);
  out.sq_psn = nic::Psn(attr.sq_psn);
  out.dest_qpn = attr.dest_qp_num & nic::Psn::kMask;
  out.qkey = attr.qkey;
  return out;
}

void merge(struct ibv_qp_attr& to, const struct ibv_qp_attr& from, int mask) {
  const auto take = [mask](int bit, auto& field, const auto& value) {
    if ((mask & bit) != 0) field = value;
  };
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, to.en_sqd_async_notify, from.en_sqd_async_notify);
  take(IBV_QP_ACCESS_FLAGS, to.qp_access_flags, from.qp_access_flags);
  take(IBV_QP_PKEY_INDEX, to.pkey_index, from.pkey_index);
  take(IBV_QP_PORT, to.port_num, from.port_num);
  take(IBV_QP_AV, to.ah_attr, from.ah_attr);
  take(IBV_QP_PATH_MTU, to.path_mtu, from.path_mtu);
  take(IBV_QP_TIMEOUT, to.timeout, from.timeout);
  take(IBV_QP_RETRY_CNT, to.retry_cnt, from.retry_cnt);
  take(IBV_QP_RNR_RETRY, to.rnr_retry, from.rnr_retry);
  take(IBV_QP_RQ_PSN, to.rq_psn, from.rq_psn & nic::Psn::kMask);
  take(IBV_QP_MAX_QP_RD_ATOMIC, to.max_rd_atomic, from.max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, to.min_rnr_timer, from.min_rnr_timer);
  take(IBV_QP_SQ_PSN, to.sq_psn, from.sq_psn & nic::Psn::kMask);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, to.max_dest_rd_atomic, from.max_dest_rd_atomic);
  take(IBV_QP_PATH_MIG_STATE, to.path_mig_state, from.path_mig_state);
  take(IBV_QP_QKEY, to.qkey, from.qkey);
  take(IBV_QP_DEST_QPN, to.dest_qp_num, from.dest_qp_num & nic::Psn::kMask);
}

std::string explain(nic::QpType type, nic::QpState from, nic::QpState to, int mask) {
  using Code = nic::TransitionVerdict::Code;
  const nic::TransitionVerdict verdict = nic::check_transition(type, from, to, static_cast<std::uint32_t>(mask));
  const std::string move = std::string(to_string(from)) + " -> " + std::string(to_string(to)) + ": ";
  switch (verdict.code) {
    case Code::kIllegalTransition:
      return move + "there is no such transition";
    case Code::kMissingAttr:
      return move + "missing " + names_of(verdict.offending);
    case Code::kUnexpectedAttr:
      return move + "not allowed here: " + names_of(verdict.offending);
    case Code::kOk:
      break;
  }
  return move + "an attribute is out of range";
}

}  // namespace uroce::ibv
