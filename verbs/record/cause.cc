// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/cause.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include "proto/address.h"
#include "proto/packet.h"
#include "proto/syndrome.h"
#include "verbs/nic/model/checks.h"
#include "verbs/nic/model/names.h"
#include "verbs/nic/model/types.h"

namespace uroce::record {
namespace {

using nic::TraceEvent;
using nic::TraceKind;
using nic::WcStatus;

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value % 16]);
  while ((value /= 16) != 0);
  return "0x" + text;
}

/// "540 ms", "1.2 s", "38 us".
std::string span_text(Duration time) {
  const double ns = static_cast<double>(time.count());
  const auto in = [](double value, const char* unit) {
    const int scaled = static_cast<int>(std::lround(value * 10));
    std::string text = std::to_string(scaled / 10);
    if (scaled < 100 && scaled % 10 != 0) text += "." + std::to_string(scaled % 10);
    return text + ' ' + unit;
  };
  return ns >= 1e9 ? in(ns / 1e9, "s") : ns >= 1e6 ? in(ns / 1e6, "ms") : in(ns / 1e3, "us");
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

/// Packets that were dropped on arrival, and why.
struct Drops {
  std::uint64_t count = 0;
  std::vector<std::pair<std::string, std::uint64_t>> reasons;  ///< In the order of the first ones.

  void add(const std::string& reason) {
    ++count;
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& row) { return row.first == reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  }
  /// "wrong ICRC"; "wrong ICRC (6), malformed (2)".
  std::string text() const {
    std::string text;
    for (const auto& [reason, times] : reasons) {
      if (!text.empty()) text += ", ";
      text += reason;
      if (reasons.size() > 1) text += " (" + std::to_string(times) + ')';
    }
    return text;
  }
};

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
    default:
      return "";
  }
}

/// One error, and the search for what led to it.
class Search {
 public:
  Search(const Recording& recording, std::size_t at)
      : recording_(recording), at_(at), error_(recording.events[at].event) {}

  std::string sent_in_vain() const {
    const std::uint32_t psn = psn_of_error();
    std::uint64_t transmissions = 1, naks = 0;
    std::optional<Instant> silent_since;
    for (std::size_t i = at_; i-- > 0;) {
      const TraceEvent& event = recording_.events[i].event;
      if (event.qpn != error_.qpn) continue;
      if (event.kind == TraceKind::kAckTimeout && event.a != psn) break;  // Before that, it got on.
      if (event.kind == TraceKind::kSequenceNakIn && event.a == psn) ++naks;
      if (event.kind == TraceKind::kRetransmitted && event.a == psn) ++transmissions;
      if (event.kind == TraceKind::kAckTimeout) silent_since = event.when;
    }
    std::string text = counted(transmissions, "transmission") + " of PSN " + hex(psn) + ", ";
    if (naks != 0) return text + "answered by " + counted(naks, "NAK") + " and never acknowledged";
    text += "no answer: ";
    if (const auto awaited = awaited_by_peer(psn)) {
      return text + "the peer" + peer_text(psn) + " waits for PSN " + hex(*awaited) +
             ". Its rq_psn and the sq_psn here must be the same (ibv_modify_qp)";
    }
    const Arrivals arrivals = arrivals_since(first_sent(psn).value_or(silent_since.value_or(error_.when)));
    const Drops& drops = arrivals.dropped;
    // Without packets nobody knows who has sent them.
    if (drops.count != 0 && !recording_.keeps_packets) {
      return text + "this NIC dropped " + counted(drops.count, "packet") + " for the QP: " + drops.text();
    }
    return text + "the peer" + peer_text(psn) + peer_does(arrivals, silent_since) + strangers_text(arrivals);
  }

  std::string not_ready() const {
    std::uint64_t naks = 0;
    Instant first = error_.when;
    const std::uint32_t psn = psn_of_error();
    for (std::size_t i = 0; i < at_; ++i) {
      const TraceEvent& event = recording_.events[i].event;
      if (event.qpn != error_.qpn || event.kind != TraceKind::kRnrNakIn || event.a != psn) continue;
      if (naks++ == 0) first = event.when;
    }
    return "the peer" + peer_text(psn) + " had no receive for PSN " + hex(psn) + ": " + counted(naks, "RNR NAK") +
           " in " + span_text(error_.when - first) + "; rnr_retry is used up";
  }

  std::string not_sent(const char* why) const {
    return "the message at PSN " + hex(psn_of_error()) + " was not sent: " + why;
  }

  /// The peer refused for good.
  std::string refused(const char* hint) const {
    const std::uint32_t psn = psn_of_error();
    return "the peer" + peer_text(psn) + " refused PSN " + hex(psn) + request_text(last_sent(psn)) + hint;
  }

  /// The peer answers something that nobody has asked for.
  std::string answered_wrongly() const {
    const std::uint32_t psn = psn_of_error();
    std::string text = "the answer of the peer" + peer_text(psn) + " to PSN " + hex(psn) +
                       request_text(last_sent(psn)) + " does not fit it, by its kind, length or syndrome";
    const Recording::Packet* const packet = packet_about(recording_.events[at_]);
    const auto* const op = packet == nullptr ? nullptr : proto::find_opcode(packet->head[0]);
    if (op == nullptr) return text;
    text += ": " + std::string(op->name);
    const auto bytes = payload_of(*packet, *op);
    if (op->kind == proto::Kind::kReadResponse && bytes) text += " with " + counted(*bytes, "byte");
    const auto syndrome = syndrome_of(*packet, *op);
    const auto* const nak = syndrome ? std::get_if<proto::syndrome::Nak>(&*syndrome) : nullptr;
    if (nak != nullptr) text += ", NAK \"" + std::string(proto::to_string(nak->code)) + '"';
    return text;
  }

  /// We refuse for good.
  std::string refuses() const {
    const auto code = static_cast<proto::NakCode>(std::min<std::uint64_t>(error_.a, 4));
    const auto psn = static_cast<std::uint32_t>(error_.b);
    std::string text = "we refuse PSN " + hex(psn);
    const Recording::Packet* const packet = last_packet(psn, false);
    if (packet != nullptr) text += " of " + proto::to_string(packet->path.source);
    text += request_text(packet) + " with a NAK \"" + std::string(proto::to_string(code)) + '"';
    if (code == proto::NakCode::kRemoteAccessError) text += ": no region here has this R_Key, range and right";
    if (code == proto::NakCode::kInvalidRequest) text += why_invalid(packet);
    return text;
  }

  /// Whether a fault asked for the error: nothing was sent then.
  bool is_injected() const {
    for (std::size_t i = at_; i-- > 0;) {
      const TraceEvent& event = recording_.events[i].event;
      if (event.qpn == error_.qpn) return event.kind == TraceKind::kInjectedError;
    }
    return false;
  }

  std::uint32_t psn_of_error() const { return static_cast<std::uint32_t>(error_.b); }

 private:
  static std::uint32_t psn_of(const Recording::Packet& packet) {
    return proto::ConstView<proto::Bth>{packet.head.data()}.get<proto::Bth::PsnField>();
  }

  /// The PSN for which the peer waits, where it only answers to others than `psn`, though `psn` is the oldest.
  std::optional<std::uint32_t> awaited_by_peer(std::uint32_t psn) const {
    const auto since = first_sent(psn);
    if (!since) return std::nullopt;
    std::optional<std::uint32_t> awaited;
    for (std::size_t i = 0; i < at_; ++i) {
      const Recording::Event& each = recording_.events[i];
      if (each.event.kind != TraceKind::kGhostAck || each.event.qpn != error_.qpn || each.event.when < *since) continue;
      const Recording::Packet* const packet = packet_about(each);
      const auto* const op = packet == nullptr ? nullptr : proto::find_opcode(packet->head[0]);
      if (op == nullptr || op->kind != proto::Kind::kAcknowledge) continue;
      const auto syndrome = syndrome_of(*packet, *op);
      if (!syndrome) continue;
      const bool is_nak = !std::holds_alternative<proto::syndrome::Ack>(*syndrome);
      awaited = is_nak ? psn_of(*packet) : (proto::Psn{psn_of(*packet)} + 1).value();
    }
    if (!awaited || *awaited == psn) return std::nullopt;
    // An answer to what was sent before is only late.
    const bool is_late = first_sent(*awaited) || first_sent((proto::Psn{*awaited} - 1).value());
    return is_late ? std::nullopt : awaited;
  }
  /// Nothing where it has none, or its head is cut off before.
  static std::optional<proto::Syndrome> syndrome_of(const Recording::Packet& packet, const proto::OpcodeInfo& op) {
    const int aeth = op.stack.offset_of(proto::HeaderId::kAeth);
    if (aeth <= 0 || packet.head.size() < static_cast<std::size_t>(aeth) + proto::Aeth::kSize) return std::nullopt;
    const proto::ConstView<proto::Aeth> view{packet.head.data() + aeth};
    return proto::decode_syndrome(view.get<proto::Aeth::SyndromeField>());
  }
  /// How many bytes of payload it has; nothing where it is too short for its headers.
  static std::optional<std::size_t> payload_of(const Recording::Packet& packet, const proto::OpcodeInfo& op) {
    const std::size_t around = op.stack.bytes + proto::kIcrcSize +
                               proto::ConstView<proto::Bth>{packet.head.data()}.get<proto::Bth::PadCount>();
    return packet.size < around ? std::nullopt : std::optional<std::size_t>(packet.size - around);
  }

  /// Which check of ours has refused the request, in words.
  std::string why_invalid(const Recording::Packet* packet) const {
    for (std::size_t i = at_; i-- > 0;) {
      const TraceEvent& event = recording_.events[i].event;
      if (event.qpn != error_.qpn) continue;
      if (event.kind != TraceKind::kRefused) break;
      switch (static_cast<nic::RcCheck>(event.a)) {
        case nic::RcCheck::kSequence:
          return ": it does not continue the message before it, or begins inside one";
        case nic::RcCheck::kOpcode:
          return ": this QP does not allow it (qp_access_flags)";
        case nic::RcCheck::kResources:
          return ": more READs and atomics at once than this QP takes (max_dest_rd_atomic)";
        case nic::RcCheck::kLength:
          return ": its length is wrong" + payload_text(packet);
        default:
          return "";
      }
    }
    const auto* const op = packet == nullptr ? nullptr : proto::find_opcode(packet->head[0]);
    return op != nullptr && op->kind == proto::Kind::kSend ? ": it is longer than the receive" : "";
  }
  /// For a packet with payload: "; it has 1024 bytes ...".
  static std::string payload_text(const Recording::Packet* packet) {
    const auto* const op = packet == nullptr ? nullptr : proto::find_opcode(packet->head[0]);
    if (op == nullptr || (op->kind != proto::Kind::kSend && op->kind != proto::Kind::kWrite)) return "";
    const auto payload = payload_of(*packet, *op);
    const std::string bytes = payload ? "; it has " + counted(*payload, "byte") : "";
    return bytes + ", and path_mtu must be the same at both ends (ibv_modify_qp)";
  }

  /// What came for the QP while the peer did not acknowledge.
  struct Arrivals {
    Drops dropped;                    ///< Packets of the peer.
    std::set<std::uint32_t> numbers;  ///< Theirs.
    std::uint64_t strangers = 0;      ///< Packets of others.
    std::string stranger;             ///< Where the last one of them came from; empty: not known.
  };
  Arrivals arrivals_since(Instant since) const {
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
  bool is_for_qp(const TraceEvent& event, const Recording::Packet* packet) const {
    if (packet != nullptr) return packet->qpn == error_.qpn || event.kind == TraceKind::kDropUnknownQp;
    if (recording_.keeps_packets) return false;  // Nobody knows any more who has sent it.
    return event.qpn == error_.qpn || (event.kind == TraceKind::kDropIcrc && event.a == error_.qpn);
  }
  static bool comes_from(const std::optional<proto::Gid>& peer, const Recording::Packet& packet) {
    return !peer || packet.path.source == *peer;
  }
  /// The packet that the NIC had received when it told of the event; null: none, or it is not kept.
  const Recording::Packet* packet_about(const Recording::Event& event) const {
    if (event.phase != Phase::kReceiving) return nullptr;
    const auto behind = std::partition_point(  // The numbers count over.
        recording_.packets.begin(), recording_.packets.end(),
        [&](const Recording::Packet& packet) { return static_cast<std::int32_t>(event.number - packet.number) > 0; });
    if (behind == recording_.packets.begin()) return nullptr;
    const Recording::Packet& packet = *std::prev(behind);
    return packet.sent || packet.head.empty() ? nullptr : &packet;
  }

  /// " never sent anything", " sent nothing for 540 ms", ...
  std::string peer_does(const Arrivals& arrivals, std::optional<Instant> silent_since) const {
    const Drops& drops = arrivals.dropped;
    const auto heard = last_heard(arrivals);
    const bool sends = heard && silent_since && *heard > *silent_since;
    if (drops.count != 0 && !sends) {
      return " sent " + counted(drops.count, "packet") + ", and this NIC dropped " +
             (drops.count == 1 ? "it: " : "them all: ") + drops.text();
    }
    if (heard) {
      // What a QP knows of its peer may be younger than the error.
      if (*heard > error_.when) {
        return " sends, the last packet " + span_text(*heard - error_.when) +
               " later, but did not acknowledge this one in time";
      }
      const std::string ago = span_text(error_.when - *heard);
      if (!sends) return " sent nothing for " + ago + port_text();
      const std::string text = " sends, the last packet " + ago + " before, but does not acknowledge this one";
      if (drops.count == 0) return text;
      return text + " in a packet that this NIC takes; it dropped " + std::to_string(drops.count) + ": " + drops.text();
    }
    if (knows_all_packets()) return " never sent anything" + aim_text() + port_text();
    if (silent_since) return " did not acknowledge it for more than " + span_text(error_.when - *silent_since);
    return " does not acknowledge it";
  }
  /// A peer with several addresses may send from another one than the QP knows.
  static std::string strangers_text(const Arrivals& arrivals) {
    if (arrivals.strangers == 0) return "";
    return "; this NIC dropped " + counted(arrivals.strangers, "packet") + " for the QP" +
           (arrivals.stranger.empty() ? ": only its peer may send to it, to its address"
                                      : " from " + arrivals.stranger + ": only its peer may send to it");
  }

  /// When a packet of the peer for the QP arrived last, which was not dropped.
  std::optional<Instant> last_heard(const Arrivals& arrivals) const {
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
  std::optional<Instant> first_sent(std::uint32_t psn) const {
    for (const Recording::Packet& packet : recording_.packets) {
      if (packet.sent && packet.qpn == error_.qpn && packet.head.size() >= proto::Bth::kSize && psn_of(packet) == psn &&
          is_request(packet))
        return packet.when;
    }
    return std::nullopt;
  }
  std::optional<proto::Gid> peer_address() const {
    for (std::size_t i = recording_.packets.size(); i-- > 0;) {
      const Recording::Packet& packet = recording_.packets[i];
      if (packet.sent && packet.qpn == error_.qpn && packet.when <= error_.when) return packet.path.destination;
    }
    const auto known = recording_.qps.find(error_.qpn);
    return known == recording_.qps.end() ? std::nullopt : proto::parse_gid(known->second.peer);
  }
  bool knows_all_packets() const {
    return (recording_.keeps_packets && recording_.lost_packets == 0) || recording_.qps.contains(error_.qpn);
  }
  /// The newest packet with `psn` before the error: of ours, or one for the QP.
  const Recording::Packet* last_packet(std::uint32_t psn, bool sent) const {
    for (std::size_t i = recording_.packets.size(); i-- > 0;) {
      const Recording::Packet& packet = recording_.packets[i];
      if (packet.sent != sent || packet.when > error_.when || packet.head.size() < proto::Bth::kSize) continue;
      if (packet.qpn == error_.qpn && psn_of(packet) == psn && is_request(packet)) return &packet;
    }
    return nullptr;
  }
  const Recording::Packet* last_sent(std::uint32_t psn) const { return last_packet(psn, true); }
  static bool is_request(const Recording::Packet& packet) {
    const auto* const op = proto::find_opcode(packet.head[0]);
    return op != nullptr && op->kind != proto::Kind::kAcknowledge && op->kind != proto::Kind::kReadResponse &&
           op->kind != proto::Kind::kAtomicAcknowledge;
  }
  std::string peer_text(std::uint32_t psn) const {
    const Recording::Packet* const packet = last_sent(psn);
    if (packet != nullptr) return ' ' + proto::to_string(packet->path.destination);
    const auto known = recording_.qps.find(error_.qpn);
    return known == recording_.qps.end() || known->second.peer.empty() ? "" : ' ' + known->second.peer;
  }
  /// A program may have connected to another QP than it wanted.
  std::string aim_text() const {
    const Recording::Packet* const packet = last_sent(psn_of_error());
    if (packet == nullptr) return "";
    return "; requests go to its QP " +
           hex(proto::ConstView<proto::Bth>{packet->head.data()}.get<proto::Bth::DestQp>());
  }
  std::string port_text() const {
    const auto known = recording_.qps.find(error_.qpn);
    if (known == recording_.qps.end() || !known->second.port_closed) return "";
    return "; port " + std::to_string(proto::kRocePort) + " there is closed";
  }
  /// " (RC WRITE ONLY of 4096 bytes at 0x7f00 with R_Key 0x1234)"
  static std::string request_text(const Recording::Packet* packet) {
    if (packet == nullptr) return "";
    const auto* const op = proto::find_opcode(packet->head[0]);
    std::string text = " (" + std::string(op->name);
    const int reth = op->stack.offset_of(proto::HeaderId::kReth);
    if (reth > 0 && packet->head.size() >= static_cast<std::size_t>(reth) + proto::Reth::kSize) {
      const proto::ConstView<proto::Reth> view{packet->head.data() + reth};
      text += " of " + std::to_string(view.get<proto::Reth::DmaLength>()) + " bytes at " +
              hex(view.get<proto::Reth::Va>()) + " with R_Key " + hex(view.get<proto::Reth::RKey>());
    }
    return text + ')';
  }

  const Recording& recording_;
  std::size_t at_;
  const TraceEvent& error_;
};

/// Why a send completed with this status.
std::string why_failed(const Search& search, WcStatus status) {
  if (search.is_injected()) return "a fault (wr=) asks for this status; nothing was sent";
  switch (status) {
    case WcStatus::kRetryExcErr:
      return search.sent_in_vain();
    case WcStatus::kRnrRetryExcErr:
      return search.not_ready();
    case WcStatus::kRemAccessErr:
      return search.refused(": no region there has this R_Key, range and right");
    case WcStatus::kRemInvReqErr:
      return search.refused(
          " as invalid: perhaps it is longer than the receive, the path_mtu of the QP there is another one, or that "
          "QP does not allow it");
    case WcStatus::kRemOpErr:
      return search.refused(": it could not execute it; perhaps memory there is gone");
    case WcStatus::kBadRespErr:
      return search.answered_wrongly();
    case WcStatus::kLocProtErr:
      return search.not_sent("an L_Key of it is wrong, or its range, or its memory is gone");
    case WcStatus::kLocQpOpErr:
      return search.not_sent(
          "a READ or an atomic needs max_rd_atomic above 0 (ibv_modify_qp), a datagram an address handle of the QP's "
          "protection domain");
    case WcStatus::kLocLenErr:
      return search.not_sent("a datagram must fit into one packet of the largest path MTU");
    case WcStatus::kMwBindErr:
      return search.not_sent("the memory window can't be bound so, or the key not be invalidated");
    default:
      return "the message at PSN " + hex(search.psn_of_error()) + " failed";
  }
}

std::optional<Cause> cause_of(const Recording& recording, std::size_t at) {
  const TraceEvent& event = recording.events[at].event;
  const Search search(recording, at);
  std::string status, text;
  if (event.kind == TraceKind::kSendFailed) {
    const auto code = static_cast<WcStatus>(event.a);
    status = to_string(code);
    text = why_failed(search, code);
  } else if (event.kind == TraceKind::kNak && event.a != 0) {
    status = event.a == 1 ? "QP_REQ_ERR" : event.a == 2 ? "QP_ACCESS_ERR" : "QP_FATAL";
    text = search.refuses();
  } else if (event.kind == TraceKind::kCqOverflow) {
    status = "QP_FATAL";
    text =
        "a completion found its CQ full, or a fault (cq_overflow=) asks for that; make the CQ larger, or poll it more "
        "often";
  } else if (event.kind == TraceKind::kReceiveFailed) {
    status = "QP_FATAL";
    text = "the receive for PSN " + hex(event.a) +
           " can't be written: an L_Key of it is wrong, or its range, or its memory is gone";
  } else if (event.kind == TraceKind::kQpBroken) {
    status = "QP_FATAL";
    text = "broken on purpose, by a fault (qp_fatal=) or a command (break QP)";
  } else if (event.kind == TraceKind::kDeviceFatal) {
    status = "DEVICE_FATAL";
    return Cause{0, event.when, status, status + ": a fault (device_fatal=) has stopped the NIC; verbs return EIO"};
  } else {
    return std::nullopt;
  }
  return Cause{event.qpn, event.when, status, status + " on QP " + hex(event.qpn) + ": " + text};
}

}  // namespace

std::vector<Cause> causes(const Recording& recording, std::size_t most) {
  std::vector<Cause> found;
  for (std::size_t i = recording.events.size(); i-- > 0 && found.size() < most;) {
    if (auto cause = cause_of(recording, i)) found.push_back(std::move(*cause));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::optional<Cause> last_cause(const Recording& recording, std::uint32_t qpn) {
  for (std::size_t i = recording.events.size(); i-- > 0;) {
    if (qpn != 0 && recording.events[i].event.qpn != qpn) continue;
    if (auto cause = cause_of(recording, i)) return cause;
  }
  return std::nullopt;
}

}  // namespace uroce::record
