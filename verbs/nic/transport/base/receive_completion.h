// SPDX-License-Identifier: Apache-2.0
// Completions of receives, all but their wr_id.
#pragma once

#include "proto/packet.h"
#include "verbs/nic/model/types.h"

namespace uroce::nic {

inline Completion failed_receive(WcStatus status) {
  Completion completion;
  completion.status = status;
  completion.opcode = WcOpcode::kRecv;
  return completion;
}

/// The completion of a message whose last packet this is.
inline Completion receive_of(const proto::PacketView& packet, std::uint32_t source_qpn, std::uint64_t length) {
  Completion completion;
  completion.opcode = packet.op().kind == proto::Kind::kWrite ? WcOpcode::kRecvWithImm : WcOpcode::kRecv;
  completion.byte_len = static_cast<std::uint32_t>(length);
  completion.src_qp = source_qpn;
  completion.solicited = packet.bth().get<proto::Bth::SolicitedEvent>() != 0;
  if (packet.has<proto::ImmDt>()) {
    completion.imm = packet.header<proto::ImmDt>().get<proto::ImmDt::Data>();
    completion.flags |= kWcWithImm;
  }
  if (packet.has<proto::Ieth>()) {
    completion.invalidated_rkey = packet.header<proto::Ieth>().get<proto::Ieth::RKey>();
    completion.flags |= kWcWithInv;
  }
  return completion;
}

}  // namespace uroce::nic
