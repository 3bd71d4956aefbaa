// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/evidence.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "proto/address.h"
#include "proto/packet.h"

namespace uroce::record {
namespace {

using nic::TraceEvent;
using nic::TraceKind;

/// Why packets of the peer were dropped; empty: the event is about something else. `packet`: null where it is not kept.
std::string why_dropped(TraceKind kind, const Recording::Packet* packet) {
  switch (kind) {
    case TraceKind::kDropMalformed: {
      if (packet == nullptr || packet->head.size() != packet->size) return "malformed";
      const auto parsed = proto::parse_packet(packet->head);
      return parsed ? "malformed" : "malformed (" + std::string(proto::to_string(parsed.error())) + ')';
    }
    case TraceKind::kDropIcrc:
      return "wrong ICRC";
    case TraceKind::kDropIdentification:
      return "an ICRC that fits no IPv4 Identification of the peer";
    case TraceKind::kDropPkey:
      return "another P_Key than the default one";
    case TraceKind::kDropUnknownQp:
      return "no QP here has the number that they go to";
    case TraceKind::kDropService:
      return "another service than the QP's";
    case TraceKind::kDropState:
      return "the state of the QP takes none";
    case TraceKind::kDropSource:
      return "not sent to the address of the QP";
    case TraceKind::kDropSyndrome:
      return "a reserved syndrome";
    default:
      return "";
  }
}

std::uint32_t psn_of(const Recording::Packet& packet) {
  return proto::ConstView<proto::Bth>{packet.head.data()}.get<proto::Bth::PsnField>();
}

bool is_request(const Recording::Packet& packet) {
  const auto* const op = op_of(&packet);
  return op != nullptr && !op->is_response();
}

bool comes_from(const std::optional<proto::Gid>& peer, const Recording::Packet& packet) {
  return !peer || packet.path.source == *peer;
}

}  // namespace

void Drops::add(const std::string& reason) {
  ++count;
  const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& row) { return row.first == reason; });
  if (known == reasons.end()) {
    reasons.emplace_back(reason, 1);
  } else {
    ++known->second;
  }
}

const proto::OpcodeInfo* op_of(const Recording::Packet* packet) {
  return packet == nullptr || packet->head.empty() ? nullptr : proto::find_opcode(packet->head[0]);
}

std::optional<proto::Syndrome> syndrome_of(const Recording::Packet& packet, const proto::OpcodeInfo& op) {
  const int aeth = op.stack.offset_of(proto::HeaderId::kAeth);
  if (aeth <= 0 || packet.head.size() < static_cast<std::size_t>(aeth) + proto::Aeth::kSize) return std::nullopt;
  const proto::ConstView<proto::Aeth> view{packet.head.data() + aeth};
  return proto::decode_syndrome(view.get<proto::Aeth::SyndromeField>());
}

std::optional<std::size_t> payload_of(const Recording::Packet& packet, const proto::OpcodeInfo& op) {
  const std::size_t around =
      op.stack.bytes + proto::kIcrcSize + proto::ConstView<proto::Bth>{packet.head.data()}.get<proto::Bth::PadCount>();
  return packet.size < around ? std::nullopt : std::optional<std::size_t>(packet.size - around);
}

bool Evidence::knows_all_packets() const {
  return (recording_.keeps_packets && recording_.lost_packets == 0) || qp() != nullptr;
}

const Recording::Qp* Evidence::qp() const {
  const auto known = recording_.qps.find(error_.qpn);
  return known == recording_.qps.end() ? nullptr : &known->second;
}

bool Evidence::is_injected() const {
  for (std::size_t i = at_; i-- > 0;) {
    const TraceEvent& event = recording_.events[i].event;
    if (event.qpn == error_.qpn) return event.kind == TraceKind::kInjectedError;
  }
  return false;
}

Evidence::Attempts Evidence::attempts() const {
  Attempts attempts;
  for (std::size_t i = at_; i-- > 0;) {
    const TraceEvent& event = recording_.events[i].event;
    if (event.qpn != error_.qpn) continue;
    if (event.kind == TraceKind::kAckTimeout && event.a != psn()) break;  // Before that, it got on.
    if (event.kind == TraceKind::kSequenceNakIn && event.a == psn()) ++attempts.naks;
    if (event.kind == TraceKind::kRetransmitted && event.a == psn()) ++attempts.transmissions;
    if (event.kind == TraceKind::kAckTimeout) attempts.silent_since = event.when;
  }
  return attempts;
}

std::pair<std::uint64_t, Instant> Evidence::rnr_naks() const {
  std::uint64_t naks = 0;
  Instant first = error_.when;
  for (std::size_t i = 0; i < at_; ++i) {
    const TraceEvent& event = recording_.events[i].event;
    if (event.qpn != error_.qpn || event.kind != TraceKind::kRnrNakIn || event.a != psn()) continue;
    if (naks++ == 0) first = event.when;
  }
  return {naks, first};
}

std::optional<std::uint32_t> Evidence::awaited_by_peer() const {
  const auto since = first_sent(psn());
  if (!since) return std::nullopt;
  std::optional<std::uint32_t> awaited;
  for (std::size_t i = 0; i < at_; ++i) {
    const Recording::Event& each = recording_.events[i];
    if (each.event.kind != TraceKind::kGhostAck || each.event.qpn != error_.qpn || each.event.when < *since) continue;
    const Recording::Packet* const packet = packet_about(each);
    const auto* const op = op_of(packet);
    if (op == nullptr || op->kind != proto::Kind::kAcknowledge) continue;
    const auto syndrome = syndrome_of(*packet, *op);
    if (!syndrome) continue;
    const bool is_nak = !std::holds_alternative<proto::syndrome::Ack>(*syndrome);
    awaited = is_nak ? psn_of(*packet) : (proto::Psn{psn_of(*packet)} + 1).value();
  }
  if (!awaited || *awaited == psn()) return std::nullopt;
  // An answer to what was sent before is only late.
  const bool is_late = first_sent(*awaited) || first_sent((proto::Psn{*awaited} - 1).value());
  return is_late ? std::nullopt : awaited;
}

std::optional<nic::RcCheck> Evidence::refusing_check() const {
  for (std::size_t i = at_; i-- > 0;) {
    const TraceEvent& event = recording_.events[i].event;
    if (event.qpn != error_.qpn) continue;
    if (event.kind != TraceKind::kRefused) break;
    return static_cast<nic::RcCheck>(event.a);
  }
  return std::nullopt;
}

std::optional<nic::RefusedKey> Evidence::refused_key(TraceKind kind) const {
  for (std::size_t i = at_; i-- > 0;) {
    const TraceEvent& event = recording_.events[i].event;
    if (event.qpn != error_.qpn) continue;
    if (event.kind == TraceKind::kState) break;  // The keys before that failed another time.
    if (event.kind == kind)
      return nic::RefusedKey{static_cast<nic::AccessError>(event.a & 3), static_cast<std::uint32_t>(event.b)};
  }
  return std::nullopt;
}

Arrivals Evidence::arrivals(std::optional<Instant> silent_since) const {
  const Instant since = first_sent(psn()).value_or(silent_since.value_or(error_.when));
  Arrivals arrivals;
  const auto peer = peer_address();
  for (std::size_t i = 0; i < at_; ++i) {
    const Recording::Event& each = recording_.events[i];
    const TraceEvent& event = each.event;
    if (each.phase != Phase::kReceiving || event.when <= since) continue;
    const Recording::Packet* const packet = packet_about(each);
    const std::string why = why_dropped(event.kind, packet);
    if (why.empty() || !is_for_qp(event, packet)) continue;
    const bool is_stranger = packet == nullptr ? event.kind == TraceKind::kDropSource : !comes_from(peer, *packet);
    if (!is_stranger) {
      arrivals.dropped.add(why);
      if (packet != nullptr) arrivals.numbers.insert(packet->number);
    } else if (event.kind == TraceKind::kDropSource) {
      ++arrivals.strangers;
      if (packet != nullptr) arrivals.stranger = proto::to_string(packet->path.source);
    }
  }
  return arrivals;
}

/// Whether the drop was of a packet for the QP, or of one that goes to a QP that is not there, as if by mistake.
bool Evidence::is_for_qp(const TraceEvent& event, const Recording::Packet* packet) const {
  if (packet != nullptr) return packet->qpn == error_.qpn || event.kind == TraceKind::kDropUnknownQp;
  if (recording_.keeps_packets) return false;  // Nobody knows any more who has sent it.
  return event.qpn == error_.qpn || (event.kind == TraceKind::kDropIcrc && event.a == error_.qpn);
}

/// The packet that the NIC had received when it told of the event; null: none, or it is not kept.
const Recording::Packet* Evidence::packet_about(const Recording::Event& event) const {
  if (event.phase != Phase::kReceiving) return nullptr;
  const auto behind = std::partition_point(  // The numbers count over.
      recording_.packets.begin(), recording_.packets.end(),
      [&](const Recording::Packet& packet) { return static_cast<std::int32_t>(event.number - packet.number) > 0; });
  if (behind == recording_.packets.begin()) return nullptr;
  const Recording::Packet& packet = *std::prev(behind);
  return packet.sent || packet.head.empty() ? nullptr : &packet;
}

bool Evidence::lacks_data(const Arrivals& arrivals) const {
  using proto::Kind;
  const auto* const asked = op_of(last_sent());
  const auto since = first_sent(psn());
  if (asked == nullptr || !since) return false;
  if (asked->kind != Kind::kReadRequest && asked->kind != Kind::kCompareSwap && asked->kind != Kind::kFetchAdd) {
    return false;
  }
  bool acknowledged = false;
  for (const Recording::Packet& packet : recording_.packets) {
    if (packet.sent || packet.qpn != error_.qpn || packet.when < *since || packet.when > error_.when) continue;
    if (!comes_from(peer_address(), packet) || arrivals.numbers.contains(packet.number)) continue;
    const auto* const op = op_of(&packet);
    if (op == nullptr || packet.head.size() < proto::Bth::kSize || psn_of(packet) != psn()) continue;
    if (op->kind == Kind::kReadResponse || op->kind == Kind::kAtomicAcknowledge) return false;
    const auto syndrome = syndrome_of(packet, *op);
    acknowledged = acknowledged || (op->kind == Kind::kAcknowledge && syndrome &&
                                    std::holds_alternative<proto::syndrome::Ack>(*syndrome));
  }
  return acknowledged;
}

std::optional<Instant> Evidence::last_heard(const Arrivals& arrivals) const {
  const auto peer = peer_address();
  for (std::size_t i = recording_.packets.size(); i-- > 0;) {
    const Recording::Packet& packet = recording_.packets[i];
    if (packet.sent || packet.qpn != error_.qpn || packet.when > error_.when) continue;
    if (comes_from(peer, packet) && !arrivals.numbers.contains(packet.number)) return packet.when;
  }
  const auto known = recording_.qps.find(error_.qpn);
  if (known == recording_.qps.end() || known->second.last_heard == Instant{}) return std::nullopt;
  if (arrivals.dropped.count != 0) return std::nullopt;  // That may have been one of them.
  return known->second.last_heard;
}

std::optional<Instant> Evidence::first_sent(std::uint32_t psn) const {
  for (const Recording::Packet& packet : recording_.packets) {
    if (packet.sent && packet.qpn == error_.qpn && packet.head.size() >= proto::Bth::kSize && psn_of(packet) == psn &&
        is_request(packet))
      return packet.when;
  }
  return std::nullopt;
}

std::optional<proto::Gid> Evidence::peer_address() const {
  for (std::size_t i = recording_.packets.size(); i-- > 0;) {
    const Recording::Packet& packet = recording_.packets[i];
    if (packet.sent && packet.qpn == error_.qpn && packet.when <= error_.when) return packet.path.destination;
  }
  const auto known = recording_.qps.find(error_.qpn);
  return known == recording_.qps.end() ? std::nullopt : proto::parse_gid(known->second.peer);
}

const Recording::Packet* Evidence::last_packet(bool sent) const {
  for (std::size_t i = recording_.packets.size(); i-- > 0;) {
    const Recording::Packet& packet = recording_.packets[i];
    if (packet.sent != sent || packet.when > error_.when || packet.head.size() < proto::Bth::kSize) continue;
    if (packet.qpn == error_.qpn && psn_of(packet) == psn() && is_request(packet)) return &packet;
  }
  return nullptr;
}

}  // namespace uroce::record
