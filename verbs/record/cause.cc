// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/cause.h"

#include <algorithm>
#include <cmath>

#include "proto/address.h"
#include "proto/packet.h"
#include "proto/syndrome.h"
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
    text += "no answer: the peer" + peer_text(psn);
    if (const auto heard = last_heard()) {
      // What a QP knows of its peer may be younger than the error.
      if (*heard > error_.when) {
        return text + " sends, the last packet " + span_text(*heard - error_.when) +
               " later, but did not acknowledge this one in time";
      }
      const std::string ago = span_text(error_.when - *heard);
      if (!silent_since || *heard <= *silent_since) return text + " sent nothing for " + ago + port_text();
      return text + " sends, the last packet " + ago + " before, but does not acknowledge this one";
    }
    if (knows_all_packets()) return text + " never sent anything" + port_text();
    if (silent_since) return text + " did not acknowledge it for more than " + span_text(error_.when - *silent_since);
    return text + " does not acknowledge it";
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

  /// The peer refused for good.
  std::string refused(const char* hint) const {
    const std::uint32_t psn = psn_of_error();
    return "the peer" + peer_text(psn) + " refused PSN " + hex(psn) + request_text(last_sent(psn)) + hint;
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

  /// When a packet for the QP arrived last.
  std::optional<Instant> last_heard() const {
    for (std::size_t i = recording_.packets.size(); i-- > 0;) {
      const Recording::Packet& packet = recording_.packets[i];
      if (!packet.sent && packet.qpn == error_.qpn && packet.when <= error_.when) return packet.when;
    }
    const auto known = recording_.qps.find(error_.qpn);
    if (known == recording_.qps.end() || known->second.last_heard == Instant{}) return std::nullopt;
    return known->second.last_heard;
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
      return search.refused(" as invalid: perhaps it is longer than the receive, or the QP there does not allow it");
    case WcStatus::kRemOpErr:
      return search.refused(": it could not execute it; perhaps memory there is gone");
    case WcStatus::kLocProtErr:
      return "the message at PSN " + hex(search.psn_of_error()) +
             " was not sent: an L_Key of it is wrong, or its range, or its memory is gone";
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
