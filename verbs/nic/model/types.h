// SPDX-License-Identifier: Apache-2.0
// Values that cross the border between the NIC and its users (the ibverbs face, tests, the simulator). Enumerators have
// the numeric values of <infiniband/verbs.h>; verbs/ibverbs/objects/abi_check.cc proves it.
#pragma once

#include <cstdint>
#include <span>

#include "proto/base/clock.h"
#include "proto/path.h"
#include "proto/psn.h"

namespace uroce::nic {

using proto::Gid;
using proto::Path;
using proto::Psn;

/// 0, or a positive errno value, as the verbs return it.
using Errno = int;

/// Access rights of memory regions and QPs: ibv_access_flags.
enum Access : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kMwBind = 1u << 4,     ///< Regions: windows may be bound to it.
  kZeroBased = 1u << 5,  ///< Windows: addresses begin with 0.
  kFlushGlobal = 1u << 8,
  kFlushPersistent = 1u << 9,  ///< For QPs only: no region is persistent memory.
};

/// ibv_qp_type.
enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4 };

/// ibv_qp_state.
enum class QpState : std::uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };

/// ibv_wr_opcode.
enum class SendOp : std::uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendInv = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

/// ibv_send_flags.
enum SendFlag : std::uint32_t { kFence = 1u << 0, kSignaled = 1u << 1, kSolicited = 1u << 2, kInline = 1u << 3 };

/// ibv_wc_status.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kFatalErr = 19,
  kGeneralErr = 21,
};

/// ibv_wc_opcode.
enum class WcOpcode : std::uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kRecv = 128,
  kRecvWithImm = 129,
};

/// How a datagram came: the service level of its receive. RoCE has no service levels, and cards of the mlx5 family tell
/// there in bit 3 that it was UDP (RoCEv2), in the others what was below. UCX before 1.19 finds the addresses in the
/// GRH area by it, and drops silently what says neither.
enum WcSl : std::uint8_t { kWcSlUdpV6 = 8 | 1, kWcSlUdpV4 = 8 | 2 };

/// ibv_wc_flags.
enum WcFlag : std::uint32_t { kWcGrh = 1u << 0, kWcWithImm = 1u << 1, kWcWithInv = 1u << 3 };

struct Sge {
  std::uint64_t addr = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

struct Pd;

/// Where a datagram goes.
struct UdTarget {
  Path path;
  std::uint32_t qpn = 0;   ///< kMulticastQpn: every QP that has joined the group.
  std::uint32_t qkey = 0;  ///< One with the top bit set stands for the sending QP's own (IBTA Vol 1, 10.2.5).
  const Pd* pd = nullptr;  ///< That of the address handle, if there is one.
};
inline constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;

/// What a bind asks for. Keys instead of pointers: the objects may be gone when it is executed.
struct MwBind {
  std::uint32_t window = 0;   ///< Any key that the window has had: its index counts.
  std::uint32_t new_key = 0;  ///< Only its low byte counts (mlx5, rxe); the rest is the window's.
  std::uint32_t lkey = 0;     ///< The region's.
  std::uint64_t addr = 0, length = 0;
  std::uint32_t access = 0;  ///< Remote rights, kLocalWrite (which grants nothing) and kZeroBased.
};

/// What a FLUSH asks for beside the address: the fields of FETH, and the bytes of a range.
struct FlushTarget {
  std::uint32_t length = 0;
  std::uint8_t placement = 0;
  std::uint8_t selectivity = 0;
};

struct SendWr {
  std::uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  std::uint32_t flags = 0;  ///< SendFlag bits.
  std::uint32_t imm = 0;    ///< Immediate data as a host integer.
  std::uint64_t remote_addr = 0;
  /// Of the memory there. kSendInv, kLocalInv: the one that is invalidated, there or here.
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  MwBind bind;
  FlushTarget flush;
  const UdTarget* target = nullptr;  ///< UD: needed. Borrowed for the call.
  std::span<const Sge> sges;         ///< Borrowed for the call.
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;  ///< Borrowed for the call.
};

/// One completion queue entry.
struct Completion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  std::uint32_t byte_len = 0;
  std::uint32_t imm = 0;               ///< Immediate data as a host integer.
  std::uint32_t invalidated_rkey = 0;  ///< With kWcWithInv.
  std::uint32_t flags = 0;             ///< WcFlag bits.
  std::uint32_t qpn = 0;
  std::uint32_t src_qp = 0;
  std::uint16_t source_end = 0;  ///< Of receives of UD over IPv4: the last two bytes of the sender's address.
  std::uint8_t sl = 0;           ///< WcSl of receives of UD, else 0.
  bool solicited = false;        ///< Counts for a CQ armed with solicited_only (errors always do).
  Instant when{};                ///< The time that the NIC knew when it was queued. Set by the NIC.
  /// Where its work queue counts those that nobody has polled yet. The CQ keeps count. Null: nowhere.
  std::uint32_t* unpolled = nullptr;
};

}  // namespace uroce::nic
