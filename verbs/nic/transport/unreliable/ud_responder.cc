// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/unreliable/ud_responder.h"

#include "proto/frame.h"
#include "verbs/nic/resources/sges.h"

namespace uroce::nic {

using proto::PacketView;

namespace {

std::uint16_t end_of(const proto::Gid& address) {
  return static_cast<std::uint16_t>(address.raw[14] << 8 | address.raw[15]);
}

}  // namespace

UdResponder::UdResponder(QpContext& context) : c_(context), receives_(context) {}

void UdResponder::flush() { receives_.flush(); }

void UdResponder::clear() {
  receives_.clear();
  c_.receive_failed.reset();
}

bool UdResponder::can_take(const PacketView& packet) {
  // IBTA Vol 1, 10.2.5.
  const std::uint32_t qkey = packet.header<proto::Deth>().get<proto::Deth::QKey>();
  if (qkey != c_.attr.qkey) {
    c_.note<TraceKind::kDropQkey>(qkey, packet.psn().value());
    return false;
  }
  const std::size_t size = packet.payload().size();
  if (size > proto::mtu_bytes(c_.env.config.mtu_max)) {
    c_.note<TraceKind::kDropRequest>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    return false;
  }
  // 9.9.3: class D, the receive stays, for a shorter one; a shared one, for any QP.
  if (!receives_.available() || proto::Grh::kSize + size > receives_.next_length()) {
    c_.note<TraceKind::kDropNoReceive>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    return false;
  }
  receives_.hold();
  return true;
}

/// Never tells of a peer: a UD QP has none.
bool UdResponder::on_request(const Arrival& arrival) {
  const PacketView& packet = arrival.packet;
  if (!can_take(packet)) return false;
  const auto grh = proto::grh_area(arrival.path, packet.bytes().size(), arrival.icrc);
  if (!scatter(c_.env.mrs, receives_.pd(), receives_.sges(), 0, grh) ||
      !scatter(c_.env.mrs, receives_.pd(), receives_.sges(), grh.size(), packet.payload())) {
    c_.note_refused(receives_.pd(), receives_.sges(), kLocalWrite);
    c_.note<TraceKind::kReceiveFailed>(packet.psn().value());
    receives_.fail(WcStatus::kLocProtErr);
    c_.receive_failed = Event::Kind::kQpFatal;
    return false;
  }
  c_.note_received(packet.payload().size());
  const std::uint32_t source = packet.header<proto::Deth>().get<proto::Deth::SourceQp>();
  Completion completion = receive_of(packet, source, grh.size() + packet.payload().size());
  completion.flags |= kWcGrh;
  const bool is_v4 = arrival.path.destination.is_v4();
  completion.sl = is_v4 ? kWcSlUdpV4 : kWcSlUdpV6;
  if (is_v4) completion.source_end = end_of(arrival.path.source);
  receives_.complete(completion);
  return false;
}

}  // namespace uroce::nic
