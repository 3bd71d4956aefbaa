// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/manager.h"

#include <fmt/core.h>

#include "proto/cm/mad.h"
#include "proto/timing.h"
#include "tools/explain/story/causes.h"

namespace uroce::explain {

using proto::cm::Attribute;

std::string_view name_of(Attribute attribute) {
  const auto* const info = proto::cm::find_message(static_cast<std::uint16_t>(attribute));
  return info == nullptr ? "?" : info->name;
}

const Manager::Sent* Manager::request_of(const proto::Gid& source, std::uint32_t local_id) const {
  const auto found = sent_.find({source.raw, static_cast<std::uint16_t>(Attribute::kReq), local_id, 0});
  return found == sent_.end() ? nullptr : &found->second;
}

/// Each one that is sent has a PSN of its own. Where a sender has only one PSN, the content tells some of them apart,
/// and the time the others.
bool Manager::is_copy(const Packet& packet, const Sent& before) {
  return before.psn == packet.psn && before.ip_id == packet.ip_id && before.content == packet.content &&
         packet.time_ns - before.time_ns <= kLongDelay;
}

void Manager::list(const Packet& packet, const Note& note) {
  if (incidents_.size() < Numbers::kListed) {
    incidents_.push_back({packet.place, packet.time_ns, note});
  } else {
    ++counts_.more_incidents;
  }
}

std::optional<Agreed> Manager::tell(const Packet& packet, Told& told) {
  const CmMessage& message = *packet.cm;
  ++counts_.messages;
  told.reason = Reason::kManagement;
  if (packet.is_lost()) {
    ++counts_.lost;
    if (!packet.lost_to().empty()) ++counts_.lost_to_faults;
    told.note(Severity::kProblem, "lost", lost_text(packet));
    list(packet, {Severity::kProblem, "lost", std::string(name_of(message.attribute)) + " was " + lost_text(packet)});
  }
  words(packet, told);
  if (packet.qkey != proto::cm::kManagementQkey) {  // Whatever it says, nobody hears it.
    told.note(Severity::kBreach, "cm_qkey",
              fmt::format("Q_Key {}: every receiver drops it; the connection manager's is {}", hex(packet.qkey),
                          hex(proto::cm::kManagementQkey)));
    list(packet, told.notes.back());
    return std::nullopt;
  }
  const Key key{packet.source.raw, static_cast<std::uint16_t>(message.attribute), message.local_id, message.remote_id};
  const auto [at, fresh] = sent_.try_emplace(
      key, Sent{packet.place, packet.time_ns, 1, message, packet.psn, packet.ip_id, packet.content, packet.source});
  if (!fresh) {
    Sent& before = at->second;
    if (is_copy(packet, before)) {
      told.reason = Reason::kNetworkCopy;
      told.sure = packet.ip_id != 0;  // With DF, all packets may have 0 (RFC 6864).
      told.cause = before.place;
      told.wait_ns = packet.time_ns - before.time_ns;
      return std::nullopt;
    }
    before.psn = packet.psn;
    before.ip_id = packet.ip_id;
    before.content = packet.content;
    told.reason = Reason::kManagementAgain;
    told.cause = before.place;
    told.wait_ns = packet.time_ns - before.time_ns;
    told.transmission = ++before.times;
    before.place = packet.place;
    before.time_ns = packet.time_ns;
    ++counts_.again;
    list(packet, {Severity::kProblem, "cm_again",
                  fmt::format("{} again, {} after {}: no answer came in time", name_of(message.attribute),
                              duration_text(told.wait_ns), (*names_)(told.cause))});
    if (message.attribute != Attribute::kRep) return std::nullopt;
  } else if (sent_.size() > kMost) {
    sent_.erase(at == sent_.begin() ? std::next(sent_.begin()) : sent_.begin());
  }
  if (fresh && message.attribute == Attribute::kReq) ++counts_.requests;
  if (fresh && message.attribute == Attribute::kRej) ++counts_.rejects;
  if (fresh && message.attribute == Attribute::kDreq) ++counts_.disconnects;
  if (message.attribute != Attribute::kRep) return std::nullopt;
  if (fresh) ++counts_.replies;
  return agree(packet, told);
}

std::optional<Agreed> Manager::agree(const Packet& packet, Told&) {
  const CmMessage& rep = *packet.cm;
  const Sent* const req = request_of(packet.destination, rep.remote_id);
  if (req == nullptr) return std::nullopt;
  Agreed agreed;
  agreed.active = {packet.destination, req->message.qpn};
  agreed.passive = {packet.source, rep.qpn};
  // Each side says with which PSN the other one is to begin (IBTA Vol 1, 12.7.31 ?).
  agreed.active_psn = rep.psn;
  agreed.passive_psn = req->message.psn;
  agreed.reliable = req->message.transport == 0;
  if (proto::is_mtu_code(req->message.mtu_code)) agreed.mtu = proto::mtu_bytes(req->message.mtu_code);
  agreed.agreement = {req->place,
                      packet.place,
                      req->message.service_id,
                      req->message.retry_count,
                      req->message.rnr_retry_count,
                      req->message.ack_timeout};
  return agreed;
}

void Manager::words(const Packet& packet, Told& told) {
  const CmMessage& m = *packet.cm;
  std::string text;
  switch (m.attribute) {
    case Attribute::kReq:
      text = fmt::format(
          "asks for a connection to service {}: QP {}, which waits for PSN {}; retry count {}, RNR retry count {}",
          hex(m.service_id), hex(m.qpn), hex(m.psn), m.retry_count, m.rnr_retry_count);
      if (const auto timeout = proto::local_ack_timeout(m.ack_timeout & 31)) {
        text += ", ACK timeout " + duration_text(timeout->count());
      }
      break;
    case Attribute::kRep:
      text = fmt::format("accepts: QP {}, which waits for PSN {}", hex(m.qpn), hex(m.psn));
      break;
    case Attribute::kRej:
      text = fmt::format("rejects, reason {}{}", m.reason,
                         m.reason == 8    ? " (invalid service ID: nobody listens)"
                         : m.reason == 28 ? " (consumer reject: the program said no, or ended)"
                         : m.reason == 4  ? " (timeout)"
                         : m.reason == 10 ? " (stale connection)"
                                          : "");
      told.note(Severity::kProblem, "cm_rej", text);
      list(packet, told.notes.back());
      return;
    case Attribute::kRtu:
      text = "ready to use: the connection is open";
      break;
    case Attribute::kMra:
      text = "asks the peer to wait";
      break;
    case Attribute::kDreq:
      text = fmt::format("disconnects (peer's QP {})", hex(m.qpn));
      break;
    case Attribute::kDrep:
      text = "agrees to disconnect";
      break;
    case Attribute::kSidrReq:
      text = fmt::format("asks for the UD QP of service {}", hex(m.service_id));
      break;
    case Attribute::kSidrRep:
      text = m.reason == 0 ? fmt::format("UD QP {}", hex(m.qpn)) : fmt::format("no QP: status {}", m.reason);
      break;
    default:
      text = "alternate paths";
  }
  told.note(Severity::kRemark, "cm", text);
}

}  // namespace uroce::explain
