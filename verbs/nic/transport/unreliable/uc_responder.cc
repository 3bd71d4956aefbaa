// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/unreliable/uc_responder.h"

#include "verbs/nic/resources/sges.h"

namespace uroce::nic {

using proto::Kind;
using proto::PacketView;

UcResponder::UcResponder(QpContext& context) : c_(context), receives_(context) {}

void UcResponder::start() {
  expected_ = c_.attr.rq_psn;
  message_ = {};
  c_.receive_failed.reset();
}

void UcResponder::flush() {
  message_ = {};
  receives_.flush();
}

void UcResponder::clear() {
  receives_.clear();
  message_ = {};
  c_.receive_failed.reset();
}

/// 9.8.2.2: any PSN but the expected one tells of lost packets. What remains of their message is no use; the next
/// message counts like any other, wherever it begins.
bool UcResponder::on_request(const Arrival& arrival) {
  const PacketView& packet = arrival.packet;
  const bool in_sequence = packet.psn() == expected_;
  if (!in_sequence) {
    c_.note<TraceKind::kOutOfSequence>(packet.psn().value(), expected_.value());
    lose_message();
  }
  expected_ = packet.psn() + 1;
  if (packet.op().starts()) lose_message();  // Also of a message that never ended.
  if (!take_packet(packet)) {
    lose_message();
    return false;
  }
  c_.note_received(packet.payload().size());
  if (packet.op().ends()) message_ = {};
  return in_sequence;
}

/// What a lost message took of an SRQ says so, and the QP goes on (9.9.3: class E). A receive of the QP's own is the
/// next message's (class D).
void UcResponder::lose_message() {
  if (receives_.held() && receives_.shared()) receives_.fail(WcStatus::kRemInvReqErr);
  message_ = {};
}

/// False: the message is lost.
bool UcResponder::take_packet(const PacketView& packet) {
  const proto::OpcodeInfo& op = packet.op();
  if (!op.starts() && message_.kind != op.kind) return refuse(packet);
  if (!message_.has_right_length(packet, c_.mtu())) return refuse(packet);
  return op.kind == Kind::kSend ? take_send(packet) : take_write(packet);
}

/// False.
bool UcResponder::refuse(const PacketView& packet) const {
  c_.note<TraceKind::kDropRequest>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
  return false;
}

bool UcResponder::lacks_receive(const PacketView& packet) const {
  if (!packet.op().consumes_receive || receives_.available()) return false;
  note_no_receive(packet);
  return true;
}

void UcResponder::note_no_receive(const PacketView& packet) const {
  c_.note<TraceKind::kDropNoReceive>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
}

bool UcResponder::take_send(const PacketView& packet) {
  if (lacks_receive(packet)) return false;
  const Bytes payload = packet.payload();
  if (message_.offset + payload.size() > receives_.next_length()) {
    note_no_receive(packet);
    return false;
  }
  message_.kind = Kind::kSend;
  receives_.hold();
  if (!scatter(c_.env.mrs, receives_.pd(), receives_.sges(), message_.offset, payload)) {
    c_.note_refused(receives_.pd(), receives_.sges(), kLocalWrite);
    c_.note<TraceKind::kReceiveFailed>(packet.psn().value());
    receives_.fail(WcStatus::kLocProtErr);
    c_.receive_failed = Event::Kind::kQpFatal;
    return false;
  }
  message_.offset += payload.size();
  if (packet.op().ends()) receives_.complete(receive_of(packet, c_.attr.dest_qpn, message_.offset));
  return true;
}

bool UcResponder::take_write(const PacketView& packet) {
  if (lacks_receive(packet)) return false;
  if ((c_.attr.access & kRemoteWrite) == 0) return refuse(packet);
  if (packet.op().starts()) {
    const auto reth = packet.header<proto::Reth>();
    message_ = {Kind::kWrite, 0, reth.get<proto::Reth::Va>(), reth.get<proto::Reth::RKey>(),
                reth.get<proto::Reth::DmaLength>()};
  }
  // What remains of the range, so that no byte of a WRITE without the right to all of it is written, and the region may
  // go in the middle of it. Zero bytes need no right (IBTA C9-88).
  if (message_.left != 0) {
    const auto memory = c_.resolve_remote(message_.rkey, message_.va, message_.left, kRemoteWrite);
    if (!memory || !c_.env.mrs.memory().write(*memory, packet.payload().data(), packet.payload().size())) {
      return refuse(packet);
    }
  }
  message_.va += packet.payload().size();
  message_.offset += packet.payload().size();
  message_.left -= static_cast<std::uint32_t>(packet.payload().size());
  if (packet.op().consumes_receive) {
    receives_.hold();
    receives_.complete(receive_of(packet, c_.attr.dest_qpn, message_.offset));
  } else if (packet.op().ends()) {
    c_.note_written();
  }
  return true;
}

}  // namespace uroce::nic
