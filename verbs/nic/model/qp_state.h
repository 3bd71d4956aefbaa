// SPDX-License-Identifier: Apache-2.0
// The QP state machine as data: which transitions exist and which attributes each needs and allows (IBTA Vol 1, 10.3.1
// and the Modify QP table of 11.2.5.2), and what a QP may do in each state.
//
//                 +------------------------------------------------ any state --> RESET, ERR
//   RESET --> INIT --> RTR --> RTS <--> SQD
//                               ^-- SQE <-- a send of a UC or UD QP failed
#pragma once

#include <array>

#include "verbs/nic/model/types.h"

namespace uroce::nic {

/// ibv_qp_attr_mask bits.
enum QpAttrBit : std::uint32_t {
  kAttrState = 1u << 0,
  kAttrCurState = 1u << 1,
  kAttrEnSqdNotify = 1u << 2,
  kAttrAccess = 1u << 3,
  kAttrPkeyIndex = 1u << 4,
  kAttrPort = 1u << 5,
  kAttrQkey = 1u << 6,
  kAttrAv = 1u << 7,
  kAttrPathMtu = 1u << 8,
  kAttrTimeout = 1u << 9,
  kAttrRetryCnt = 1u << 10,
  kAttrRnrRetry = 1u << 11,
  kAttrRqPsn = 1u << 12,
  kAttrMaxRdAtomic = 1u << 13,
  kAttrAltPath = 1u << 14,
  kAttrMinRnrTimer = 1u << 15,
  kAttrSqPsn = 1u << 16,
  kAttrMaxDestRdAtomic = 1u << 17,
  kAttrPathMig = 1u << 18,
  kAttrCap = 1u << 19,
  kAttrDestQpn = 1u << 20,
};

/// Attributes of a QP as modify and query see them; which of them count, its type decides. Meaning and units as in
/// ibv_qp_attr.
struct QpAttr {
  QpState state = QpState::kReset;
  QpState cur_state = QpState::kReset;
  bool en_sqd_notify = false;
  std::uint32_t access = 0;  ///< Access bits: what peers may do through this QP.
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  std::uint8_t sgid_index = 0;
  Path path;                   ///< Resolved by the caller from ibv_ah_attr: addresses, source port, class, hop limit.
  std::uint8_t path_mtu = 1;   ///< Enum 1..5: 256, 512, 1024, 2048, 4096 bytes.
  std::uint8_t timeout = 0;    ///< Local ACK timeout 4.096 us * 2^n, 0 = never.
  std::uint8_t retry_cnt = 0;  ///< 0..7.
  std::uint8_t rnr_retry = 0;  ///< 0..7, 7 = for ever.
  std::uint8_t min_rnr_timer = 0;       ///< 0..31.
  std::uint8_t max_rd_atomic = 0;       ///< READ/atomic we may have outstanding.
  std::uint8_t max_dest_rd_atomic = 0;  ///< READ/atomic the peer may have outstanding.
  Psn rq_psn;
  Psn sq_psn;
  std::uint32_t dest_qpn = 0;
  std::uint32_t qkey = 0;  ///< UD.
};

struct Transition {
  QpState from, to;
  std::uint32_t required, optional;  ///< QpAttrBit sets, besides kAttrState.
};

struct TransitionVerdict {
  enum class Code : std::uint8_t { kOk, kIllegalTransition, kMissingAttr, kUnexpectedAttr } code;
  std::uint32_t offending;  ///< The bits that are missing or too many.
};

/// Judges a modify of a QP from `from` to `to` with attribute mask `given`.
TransitionVerdict check_transition(QpType type, QpState from, QpState to, std::uint32_t given);

/// What a QP may do in a state (IBTA Vol 1, 10.3.1).
struct StateRights {
  bool post_send, post_recv;
  bool respond;                 ///< Processes inbound requests.
  bool request;                 ///< Starts new request packets.
  bool complete;                ///< Processes responses to requests already sent.
  bool flush_send, flush_recv;  ///< Posted WRs complete at once with WR_FLUSH_ERR.
};
const StateRights& rights(QpState state);

}  // namespace uroce::nic
