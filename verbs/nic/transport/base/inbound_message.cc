// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/base/inbound_message.h"

#include "verbs/nic/model/limits.h"

namespace uroce::nic {

using proto::Position;

bool InboundMessage::has_right_length(const proto::PacketView& packet, std::uint32_t mtu) const {
  const std::size_t size = packet.payload().size();
  const proto::OpcodeInfo& op = packet.op();
  if (!op.ends() && size != mtu) return false;
  if (size > mtu || (op.position == Position::kLast && size == 0)) return false;
  if (packet.has<proto::Reth>()) {
    const std::uint32_t announced = packet.header<proto::Reth>().get<proto::Reth::DmaLength>();
    if (announced > kMaxMessageBytes) return false;
    return op.position == Position::kOnly ? announced == size : announced > size;
  }
  if (op.kind == proto::Kind::kSend) return offset + size <= kMaxMessageBytes;
  return op.ends() ? left == size : left > size;
}

}  // namespace uroce::nic
