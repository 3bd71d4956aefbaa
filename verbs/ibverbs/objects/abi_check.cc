// SPDX-License-Identifier: Apache-2.0
// Proof that numbers of verbs/nic equal those of <infiniband/verbs.h>, so that converting one into the other is a cast.
#include <infiniband/verbs.h>

#include <cstddef>

#include "verbs/ibverbs/catalogue/newer.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/model/types.h"
#include "verbs/nic/resources/mr_table.h"

namespace uroce::ibv {
namespace {

template <class Ours, class Theirs>
consteval bool same(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

// clang-format off
static_assert(same(nic::kLocalWrite,   IBV_ACCESS_LOCAL_WRITE));
static_assert(same(nic::kRemoteWrite,  IBV_ACCESS_REMOTE_WRITE));
static_assert(same(nic::kRemoteRead,   IBV_ACCESS_REMOTE_READ));
static_assert(same(nic::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(nic::kMwBind,       IBV_ACCESS_MW_BIND));
static_assert(same(nic::kZeroBased,    IBV_ACCESS_ZERO_BASED));
static_assert(same(nic::kFlushGlobal,  newer::kAccessFlushGlobal));
static_assert(same(nic::kFlushPersistent, newer::kAccessFlushPersistent));
static_assert(same(nic::MwType::k1, IBV_MW_TYPE_1) && same(nic::MwType::k2, IBV_MW_TYPE_2));

static_assert(same(nic::QpState::kReset, IBV_QPS_RESET));
static_assert(same(nic::QpState::kInit,  IBV_QPS_INIT));
static_assert(same(nic::QpState::kRtr,   IBV_QPS_RTR));
static_assert(same(nic::QpState::kRts,   IBV_QPS_RTS));
static_assert(same(nic::QpState::kSqd,   IBV_QPS_SQD));
static_assert(same(nic::QpState::kSqe,   IBV_QPS_SQE));
static_assert(same(nic::QpState::kErr,   IBV_QPS_ERR));

static_assert(same(nic::SendOp::kWrite,       IBV_WR_RDMA_WRITE));
static_assert(same(nic::SendOp::kWriteImm,    IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(nic::SendOp::kSend,        IBV_WR_SEND));
static_assert(same(nic::SendOp::kSendImm,     IBV_WR_SEND_WITH_IMM));
static_assert(same(nic::SendOp::kRead,        IBV_WR_RDMA_READ));
static_assert(same(nic::SendOp::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(nic::SendOp::kFetchAdd,    IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(same(nic::SendOp::kLocalInv,    IBV_WR_LOCAL_INV));
static_assert(same(nic::SendOp::kBindMw,      IBV_WR_BIND_MW));
static_assert(same(nic::SendOp::kSendInv,     IBV_WR_SEND_WITH_INV));
static_assert(same(nic::SendOp::kFlush,       newer::kWrFlush));
static_assert(same(nic::SendOp::kAtomicWrite, IBV_WR_ATOMIC_WRITE));

static_assert(same(nic::kFence,     IBV_SEND_FENCE));
static_assert(same(nic::kSignaled,  IBV_SEND_SIGNALED));
static_assert(same(nic::kSolicited, IBV_SEND_SOLICITED));
static_assert(same(nic::kInline,    IBV_SEND_INLINE));

static_assert(same(nic::WcStatus::kSuccess,        IBV_WC_SUCCESS));
static_assert(same(nic::WcStatus::kLocLenErr,      IBV_WC_LOC_LEN_ERR));
static_assert(same(nic::WcStatus::kLocQpOpErr,     IBV_WC_LOC_QP_OP_ERR));
static_assert(same(nic::WcStatus::kLocProtErr,     IBV_WC_LOC_PROT_ERR));
static_assert(same(nic::WcStatus::kWrFlushErr,     IBV_WC_WR_FLUSH_ERR));
static_assert(same(nic::WcStatus::kMwBindErr,      IBV_WC_MW_BIND_ERR));
static_assert(same(nic::WcStatus::kBadRespErr,     IBV_WC_BAD_RESP_ERR));
static_assert(same(nic::WcStatus::kLocAccessErr,   IBV_WC_LOC_ACCESS_ERR));
static_assert(same(nic::WcStatus::kRemInvReqErr,   IBV_WC_REM_INV_REQ_ERR));
static_assert(same(nic::WcStatus::kRemAccessErr,   IBV_WC_REM_ACCESS_ERR));
static_assert(same(nic::WcStatus::kRemOpErr,       IBV_WC_REM_OP_ERR));
static_assert(same(nic::WcStatus::kRetryExcErr,    IBV_WC_RETRY_EXC_ERR));
static_assert(same(nic::WcStatus::kRnrRetryExcErr, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(same(nic::WcStatus::kFatalErr,       IBV_WC_FATAL_ERR));
static_assert(same(nic::WcStatus::kGeneralErr,     IBV_WC_GENERAL_ERR));

static_assert(same(nic::WcOpcode::kSend,        IBV_WC_SEND));
static_assert(same(nic::WcOpcode::kWrite,       IBV_WC_RDMA_WRITE));
static_assert(same(nic::WcOpcode::kRead,        IBV_WC_RDMA_READ));
static_assert(same(nic::WcOpcode::kCompareSwap, IBV_WC_COMP_SWAP));
static_assert(same(nic::WcOpcode::kFetchAdd,    IBV_WC_FETCH_ADD));
static_assert(same(nic::WcOpcode::kBindMw,      IBV_WC_BIND_MW));
static_assert(same(nic::WcOpcode::kLocalInv,    IBV_WC_LOCAL_INV));
static_assert(same(nic::WcOpcode::kFlush,       newer::kWcFlush));
static_assert(same(nic::WcOpcode::kAtomicWrite, IBV_WC_ATOMIC_WRITE));
static_assert(same(nic::WcOpcode::kRecv,        IBV_WC_RECV));
static_assert(same(nic::WcOpcode::kRecvWithImm, IBV_WC_RECV_RDMA_WITH_IMM));

static_assert(same(nic::kWcGrh,     IBV_WC_GRH));
static_assert(same(nic::kWcWithImm, IBV_WC_WITH_IMM));
static_assert(same(nic::kWcWithInv, IBV_WC_WITH_INV));

static_assert(same(nic::kAttrState,           IBV_QP_STATE));
static_assert(same(nic::kAttrCurState,        IBV_QP_CUR_STATE));
static_assert(same(nic::kAttrEnSqdNotify,     IBV_QP_EN_SQD_ASYNC_NOTIFY));
static_assert(same(nic::kAttrAccess,          IBV_QP_ACCESS_FLAGS));
static_assert(same(nic::kAttrPkeyIndex,       IBV_QP_PKEY_INDEX));
static_assert(same(nic::kAttrPort,            IBV_QP_PORT));
static_assert(same(nic::kAttrQkey,            IBV_QP_QKEY));
static_assert(same(nic::kAttrAv,              IBV_QP_AV));
static_assert(same(nic::kAttrPathMtu,         IBV_QP_PATH_MTU));
static_assert(same(nic::kAttrTimeout,         IBV_QP_TIMEOUT));
static_assert(same(nic::kAttrRetryCnt,        IBV_QP_RETRY_CNT));
static_assert(same(nic::kAttrRnrRetry,        IBV_QP_RNR_RETRY));
static_assert(same(nic::kAttrRqPsn,           IBV_QP_RQ_PSN));
static_assert(same(nic::kAttrMaxRdAtomic,     IBV_QP_MAX_QP_RD_ATOMIC));
static_assert(same(nic::kAttrAltPath,         IBV_QP_ALT_PATH));
static_assert(same(nic::kAttrMinRnrTimer,     IBV_QP_MIN_RNR_TIMER));
static_assert(same(nic::kAttrSqPsn,           IBV_QP_SQ_PSN));
static_assert(same(nic::kAttrMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC));
static_assert(same(nic::kAttrPathMig,         IBV_QP_PATH_MIG_STATE));
static_assert(same(nic::kAttrCap,             IBV_QP_CAP));
static_assert(same(nic::kAttrDestQpn,         IBV_QP_DEST_QPN));

// The path MTU enum.
static_assert(same(1, IBV_MTU_256) && same(5, IBV_MTU_4096));

// Offsets that compiled programs have built in, through the inline verbs (x86-64 and aarch64; rdma-core 28 to 65).
static_assert(sizeof(struct ibv_device) == 664);
static_assert(sizeof(struct ibv_context) == 288 + sizeof(pthread_mutex_t));
static_assert(offsetof(struct ibv_context, ops)           == 8);
static_assert(offsetof(struct ibv_context, cmd_fd)        == 264);
static_assert(offsetof(struct ibv_context, async_fd)      == 268);
static_assert(offsetof(struct ibv_context, abi_compat)    == 280 + sizeof(pthread_mutex_t));
static_assert(offsetof(struct ibv_context_ops, poll_cq)       == 88);
static_assert(offsetof(struct ibv_context_ops, req_notify_cq) == 96);
static_assert(offsetof(struct ibv_context_ops, post_send)     == 200);
static_assert(offsetof(struct ibv_context_ops, post_recv)     == 208);

// own() of a plain CQ or QP, and ibv_cq_ex_to_cq(), rely on these.
static_assert(offsetof(struct ibv_cq, mutex)                  == offsetof(struct ibv_cq_ex, mutex));
static_assert(offsetof(struct ibv_cq, async_events_completed) == offsetof(struct ibv_cq_ex, async_events_completed));
static_assert(offsetof(struct ibv_qp_ex, qp_base)             == 0);
// clang-format on

// Providers that a program links beside us look for their operations behind the public structure.
static_assert(sizeof(Device) >= 1024);

}  // namespace
}  // namespace uroce::ibv
