// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/cause.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "proto/address.h"
#include "proto/packet.h"
#include "proto/syndrome.h"
#include "verbs/nic/model/names.h"
#include "verbs/nic/model/qpn.h"
#include "verbs/nic/model/types.h"
#include "verbs/record/evidence.h"
#include "verbs/record/refusals.h"

namespace uroce::record {
namespace {

using nic::TraceEvent;
using nic::TraceKind;
using nic::WcStatus;

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

/// "wrong ICRC"; "wrong ICRC (6), malformed (2)".
std::string reasons_text(const Drops& drops) {
  std::string text;
  for (const auto& [reason, times] : drops.reasons) {
    if (!text.empty()) text += ", ";
    text += reason;
    if (drops.reasons.size() > 1) text += " (" + std::to_string(times) + ')';
  }
  return text;
}

std::string peer_text(const Evidence& evidence) {
  const Recording::Packet* const packet = evidence.last_sent();
  if (packet != nullptr) return ' ' + proto::to_string(packet->path.destination);
  const Recording::Qp* const qp = evidence.qp();
  return qp == nullptr || qp->peer.empty() ? "" : ' ' + qp->peer;
}

/// A program may have connected to another QP than it wanted, or to itself.
std::string aim_text(const Evidence& evidence) {
  const Recording::Packet* const packet = evidence.last_sent();
  if (packet == nullptr) return "";
  const std::string own = packet->path.destination == packet->path.source ? "; that is this NIC's own address" : "";
  return own + "; requests go to its QP " +
         hex(proto::ConstView<proto::Bth>{packet->head.data()}.get<proto::Bth::DestQp>());
}

std::string port_text(const Evidence& evidence) {
  const Recording::Qp* const qp = evidence.qp();
  if (qp == nullptr || !qp->port_closed) return "";
  return "; port " + std::to_string(proto::kRocePort) + " there is closed";
}

/// Where processes share an address, each gets what is for its slot (ADR 9); nobody gets the rest.
std::string unseen_text(const Evidence& evidence) {
  if (nic::slot_of(evidence.error().qpn) == 0) return "";
  return "; answers to a wrong QP number would not be seen, as processes share the address here (UROCE_BROKER=off "
         "shows them)";
}

/// A peer with several addresses may send from another one than the QP knows.
std::string strangers_text(const Arrivals& arrivals) {
  if (arrivals.strangers == 0) return "";
  return "; this NIC dropped " + counted(arrivals.strangers, "packet") + " for the QP" +
         (arrivals.stranger.empty() ? ": only its peer may send to it, to its address"
                                    : " from " + arrivals.stranger + ": only its peer may send to it");
}

std::string refusals_text(const Recording::Refusals& refusals) {
  if (refusals.count == 0) return "";
  return "; the kernel of this host did not send " + counted(refusals.count, "packet") +
         " of this NIC: " + std::strerror(refusals.last_error) + " (see: uroce doctor)";
}

std::string faults_text(const Evidence& evidence) {
  if (evidence.on_purpose() == 0) return "";
  return "; faults on purpose (UROCE_FAULTS, uroce ctl) have lost, damaged or held back " +
         counted(evidence.on_purpose(), "packet") + " that this NIC sent or received";
}

/// " never sent anything", " sent nothing for 540 ms", ...
std::string peer_does(const Evidence& evidence, const Arrivals& arrivals, std::optional<Instant> silent_since) {
  const Drops& drops = arrivals.dropped;
  const Instant failed = evidence.error().when;
  const auto heard = evidence.last_heard(arrivals);
  const bool sends = heard && silent_since && *heard > *silent_since;
  if (drops.count != 0 && !sends) {
    return " sent " + counted(drops.count, "packet") + ", and this NIC dropped " +
           (drops.count == 1 ? "it: " : "them all: ") + reasons_text(drops);
  }
  if (heard) {
    // What a QP knows of its peer may be younger than the error.
    if (*heard > failed) {
      return " sends, the last packet " + span_text(*heard - failed) +
             " later, but did not acknowledge this one in time";
    }
    const std::string ago = span_text(failed - *heard);
    if (!sends)
      return (evidence.on_purpose() == 0 ? " sent nothing for " : " was not heard for ") + ago + port_text(evidence);
    if (evidence.lacks_data(arrivals)) {
      return " acknowledges it, the last time " + ago +
             " before, but sends no data: a READ or an atomic is answered with its result (an ACK instead is an "
             "implied NAK)";
    }
    std::string text = " sends, the last packet " + ago + " before, but does not acknowledge this one";
    if (drops.count == 0) return text;
    return text + " in a packet that this NIC takes; it dropped " + std::to_string(drops.count) + ": " +
           reasons_text(drops);
  }
  if (evidence.on_purpose() != 0) return " was not heard";
  if (evidence.knows_all_packets()) {
    const std::string port = port_text(evidence);
    return " never sent anything to this QP" + aim_text(evidence) + (port.empty() ? unseen_text(evidence) : port);
  }
  if (silent_since) return " did not acknowledge it for more than " + span_text(failed - *silent_since);
  return " does not acknowledge it";
}

std::string sent_in_vain(const Evidence& evidence) {
  const auto [transmissions, naks, silent_since] = evidence.attempts();
  std::string text = counted(transmissions, "transmission") + " of PSN " + hex(evidence.psn()) + ", ";
  if (naks != 0) return text + "answered by " + counted(naks, "NAK") + " and never acknowledged";
  text += "no answer: ";
  if (const auto awaited = evidence.awaited_by_peer()) {
    return text + "the peer" + peer_text(evidence) + " waits for PSN " + hex(*awaited) +
           ". Its rq_psn and the sq_psn here must be the same (ibv_modify_qp)";
  }
  const Arrivals arrivals = evidence.arrivals(silent_since);
  const Drops& drops = arrivals.dropped;
  // Without packets nobody knows who has sent them.
  if (drops.count != 0 && !evidence.keeps_packets()) {
    return text + "this NIC dropped " + counted(drops.count, "packet") + " for the QP: " + reasons_text(drops) +
           faults_text(evidence);
  }
  return text + "the peer" + peer_text(evidence) + peer_does(evidence, arrivals, silent_since) +
         strangers_text(arrivals) + refusals_text(evidence.refusals()) + faults_text(evidence);
}

std::string not_ready(const Evidence& evidence) {
  const auto [naks, first] = evidence.rnr_naks();
  return "the peer" + peer_text(evidence) + " had no receive for PSN " + hex(evidence.psn()) +
         request_text(evidence.last_sent()) + ": " + counted(naks, "RNR NAK") +
         (naks == 1 ? "" : " in " + span_text(evidence.error().when - first)) + "; rnr_retry is used up";
}

std::string not_sent(const Evidence& evidence, const char* why) {
  return "the message at PSN " + hex(evidence.psn()) + " was not sent: " + why;
}

/// A message, or its answer, with memory that can't be used.
std::string no_memory_of_ours(const Evidence& evidence) {
  const bool was_sent = evidence.last_sent() != nullptr;
  const bool is_answer = is_answered_with_data(evidence.last_sent()) && evidence.answer() != nullptr;
  return "the message at PSN " + hex(evidence.psn()) + request_text(evidence.last_sent()) +
         (is_answer                               ? " was sent, but its answer can't be written: "
          : was_sent || !evidence.keeps_packets() ? " failed: "
                                                  : " was not sent: ") +
         bad_memory(evidence, is_answer);
}

/// The peer refused for good.
std::string refused(const Evidence& evidence, const std::string& hint) {
  return "the peer" + peer_text(evidence) + " refused PSN " + hex(evidence.psn()) + request_text(evidence.last_sent()) +
         hint;
}

/// The peer answers something that nobody has asked for.
std::string answered_wrongly(const Evidence& evidence) {
  std::string text = "the answer of the peer" + peer_text(evidence) + " to PSN " + hex(evidence.psn()) +
                     request_text(evidence.last_sent()) + " does not fit it, by its kind, place, length or syndrome";
  const Recording::Packet* const packet = evidence.answer();
  const auto* const op = op_of(packet);
  if (op == nullptr) return text;
  text += ": " + std::string(op->name);
  const auto bytes = payload_of(*packet, *op);
  if (op->kind == proto::Kind::kReadResponse && bytes)
    text += " with " + counted(*bytes, "byte") + " (path_mtu must be the same at both ends)";
  const auto syndrome = syndrome_of(*packet, *op);
  const auto* const nak = syndrome ? std::get_if<proto::syndrome::Nak>(&*syndrome) : nullptr;
  if (nak != nullptr) text += ", NAK \"" + std::string(proto::to_string(nak->code)) + '"';
  return text;
}

/// We refuse for good.
std::string refuses(const Evidence& evidence) {
  const auto code = static_cast<proto::NakCode>(std::min<std::uint64_t>(evidence.error().a, 4));
  std::string text = "we refuse PSN " + hex(evidence.psn());
  const Recording::Packet* const packet = evidence.last_received();
  if (packet != nullptr) text += " of " + proto::to_string(packet->path.source);
  text += request_text(packet) + " with a NAK \"" + std::string(proto::to_string(code)) + '"';
  switch (code) {
    case proto::NakCode::kRemoteAccessError:
      return text + no_access_here(evidence);
    case proto::NakCode::kInvalidRequest:
      return text + invalid_here(evidence, packet);
    case proto::NakCode::kRemoteOperationalError:
      return text + ": " +
             (evidence.refused_key(nic::TraceKind::kLkeyRefused) ? "the receive can't be written: " : "") +
             bad_memory(evidence, !is_read(packet));
    default:
      return text;
  }
}

/// Why a send completed with this status.
std::string why_failed(const Evidence& evidence, WcStatus status) {
  if (evidence.is_injected()) return "a fault (wr=) asks for this status; nothing was sent";
  switch (status) {
    case WcStatus::kRetryExcErr:
      return sent_in_vain(evidence);
    case WcStatus::kRnrRetryExcErr:
      return not_ready(evidence);
    case WcStatus::kRemAccessErr:
      return refused(evidence, no_access_there(evidence.last_sent()));
    case WcStatus::kRemInvReqErr:
      return refused(evidence, " as invalid" + invalid_there(evidence.last_sent()));
    case WcStatus::kRemOpErr:
      return refused(evidence, not_done_there(evidence.last_sent()));
    case WcStatus::kBadRespErr:
      return answered_wrongly(evidence);
    case WcStatus::kLocProtErr:
      return no_memory_of_ours(evidence);
    case WcStatus::kLocQpOpErr:
      return not_sent(
          evidence,
          "a READ or an atomic needs max_rd_atomic above 0 (ibv_modify_qp), a datagram an address handle of the QP's "
          "protection domain");
    case WcStatus::kLocLenErr:
      return not_sent(evidence, "a datagram must fit into one packet of the largest path MTU");
    case WcStatus::kMwBindErr:
      return not_sent(evidence, "the memory window can't be bound so, or the key not be invalidated");
    default:
      return "the message at PSN " + hex(evidence.psn()) + " failed";
  }
}

std::optional<Cause> cause_of(const Recording& recording, std::size_t at) {
  const TraceEvent& event = recording.events[at].event;
  const Evidence evidence(recording, at);
  std::string status, text;
  if (event.kind == TraceKind::kSendFailed) {
    const auto code = static_cast<WcStatus>(event.a);
    status = to_string(code);
    text = why_failed(evidence, code);
  } else if (event.kind == TraceKind::kNak && event.a != 0) {
    status = event.a == 1 ? "QP_REQ_ERR" : event.a == 2 ? "QP_ACCESS_ERR" : "QP_FATAL";
    text = refuses(evidence);
  } else if (event.kind == TraceKind::kCqOverflow) {
    status = "QP_FATAL";
    text =
        "a completion found its CQ full, or a fault (cq_overflow=) asks for that; make the CQ larger, or poll it more "
        "often";
  } else if (event.kind == TraceKind::kReceiveFailed) {
    status = "QP_FATAL";
    text = "the receive for PSN " + hex(event.a) + " can't be written: " + bad_memory(evidence, true);
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
