// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/sentences.h"

#include <fmt/core.h>

#include "proto/address.h"
#include "proto/describe/describe.h"
#include "tools/explain/story/causes.h"

namespace uroce::explain {

using proto::Kind;

std::string what(const Packet& packet) {
  if (packet.cm) return "CM " + std::string(name_of(packet.cm->attribute));
  if (packet.op->kind == Kind::kAcknowledge) return proto::describe(packet.decoded());
  std::string_view name = packet.op->name;
  if (name.starts_with("RC ")) name.remove_prefix(3);
  return std::string(name);
}

std::string part_text(const Packet& packet, const Told& told) {
  const Part& part = told.part;
  if (part.message == 0) return {};
  std::string text = fmt::format("message {}", part.message);
  const bool carries = packet.op->has_payload || packet.op->kind == Kind::kReadRequest;
  if (!carries) return text;
  if (part.size == 0) return text + ", 0 bytes";
  text += fmt::format(", bytes {}..{}", part.offset, part.offset + part.size - 1);
  if (part.total != 0) text += fmt::format(" of {}", part.total);
  return text;
}

namespace {

std::string ordinal(std::uint32_t n) {
  const std::uint32_t last = n % 100 >= 11 && n % 100 <= 13 ? 0 : n % 10;
  return fmt::format("{}{}", n, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

/// Whether somebody may repeat it for its sender, who was gone before an answer came: uroce-broker does.
bool is_last_word(const Packet& packet) {
  using proto::cm::Attribute;
  if (!packet.cm) return false;
  const Attribute attribute = packet.cm->attribute;
  return attribute == Attribute::kDreq || attribute == Attribute::kDrep || attribute == Attribute::kRej;
}

std::string main_reason(const Packet& packet, const Told& told, const Names& names) {
  const std::string maybe = told.sure ? "" : "probably ";
  switch (told.reason) {
    case Reason::kFirst:
      return packet.op->service == proto::Service::kUd ? "" : "first transmission";
    case Reason::kNak:
    case Reason::kTimeout:
    case Reason::kRnr:
    case Reason::kImpliedNak:
    case Reason::kUnknown: {
      const std::string verb = packet.op->kind == Kind::kReadRequest ? "ASKED AGAIN" : "SENT AGAIN";
      const std::string nth = told.transmission > 1 ? " (" + ordinal(told.transmission) + " time)" : "";
      return verb + nth + " " + because(told.reason, told.sure, told.cause, told.wait_ns, names);
    }
    case Reason::kNetworkCopy:
      if (!told.sure && is_last_word(packet)) {
        return fmt::format(
            "COPY made by the network, or sent again for a process that has ended, {} after the packet before",
            duration_text(told.wait_ns));
      }
      return fmt::format("COPY {}made by the network, {} after the packet before: not sent again", maybe,
                         duration_text(told.wait_ns));
    case Reason::kReordered:
      if (told.cause) {
        return fmt::format("LATE: {}overtaken in the network by {}, which was sent later and came {} before", maybe,
                           names(told.cause), duration_text(told.wait_ns));
      }
      return fmt::format("LATE: {}overtaken in the network, {} behind {}", maybe, duration_text(told.wait_ns),
                         packet.is_response() ? "a later answer" : "a later PSN");
    case Reason::kAnswer:
      if (!told.cause || packet.refuses()) return {};
      return fmt::format("answers {}, {} after it", names(told.cause), duration_text(told.wait_ns));
    case Reason::kAnswerAgain:
      if (!told.cause) return fmt::format("AGAIN: {}answers a duplicate", maybe);
      return packet.op->kind == Kind::kAcknowledge
                 ? fmt::format("AGAIN: acknowledged before; {}answers a duplicate (PSN last sent in {})", maybe,
                               names(told.cause))
                 : fmt::format("AGAIN: {}answers {}, a duplicate", maybe, names(told.cause));
    case Reason::kCredits:
      return "tells of new credits: the responder has posted receives";
    case Reason::kBehindGap:
      return "BEHIND A GAP: the requester drops it";
    case Reason::kManagementAgain:
      return fmt::format("SENT AGAIN ({} time): no answer to {} for {}", ordinal(told.transmission), names(told.cause),
                         duration_text(told.wait_ns));
    case Reason::kManagement:
    case Reason::kNone:
      return {};
  }
  return {};
}

}  // namespace

std::string because(Reason reason, bool sure, Place cause, std::int64_t wait_ns, const Names& names) {
  const std::string maybe = sure ? "" : "probably ";
  switch (reason) {
    case Reason::kNak:
      if (!cause) return maybe + "because of a NAK that this capture does not have";
      return fmt::format("{}because of the NAK {}, {} before", maybe, names(cause), duration_text(wait_ns));
    case Reason::kTimeout:
      if (wait_ns < kShortestTimeout) return maybe + "because of a timeout";  // The NIC says so; since when, nobody.
      return fmt::format("{}because of a timeout: no answer for {}", maybe, duration_text(wait_ns));
    case Reason::kRnr:
      if (!cause) return maybe + "after an RNR wait, for an RNR NAK that this capture does not have";
      return fmt::format("{}after an RNR wait of {} (RNR NAK {})", maybe, duration_text(wait_ns), names(cause));
    case Reason::kImpliedNak:
      if (!cause && sure) return "because of an implied NAK: an answer was lost";
      if (!cause) return "probably because of an implied NAK: an answer was lost behind this capture";
      return fmt::format("{}because of the implied NAK {}, {} before", maybe, names(cause), duration_text(wait_ns));
    default:
      return "for a reason that the capture does not show (probably a NAK that it does not have, or the network has "
             "held back the packet)";
  }
}

std::string why(const Packet& packet, const Told& told, const Names& names) {
  std::string text = main_reason(packet, told, names);
  for (const Note& note : told.notes) {
    if (note.repeated) continue;
    if (!text.empty()) text += "; ";
    if (note.severity == Severity::kProblem) text += "! ";
    if (note.severity == Severity::kBreach) text += "!! ";
    if (note.severity == Severity::kUnusual) text += "unusual: ";
    text += note.text;
  }
  return text;
}

std::string text_of(const Endpoint& endpoint) {
  return proto::to_string(endpoint.gid) + (endpoint.qpn ? " QP " + hex(*endpoint.qpn) : " QP not known");
}

std::string text_of(Pairing pairing) {
  switch (pairing) {
    case Pairing::kOneSided:
      return "no packet goes to A";
    case Pairing::kManager:
      return "paired by REQ and REP";
    case Pairing::kAnswers:
      return "paired by answers that fit the requests";
    case Pairing::kGuess:
      return "probably a pair: nothing else fits";
  }
  return {};
}

std::string text_of(proto::Service service) {
  switch (service) {
    case proto::Service::kRc:
      return "RC";
    case proto::Service::kUc:
      return "UC";
    case proto::Service::kUd:
      return "UD";
    default:
      return "?";
  }
}

std::string operation_text(Operation operation, const Numbers::PerOperation& row) {
  std::string text = counted(row.count, to_string(operation));
  if (row.whole == 0) return text + fmt::format(" (not whole: {} bytes)", row.bytes);
  if (row.least == row.most && row.whole == row.count) return text + fmt::format(" of {} bytes", row.most);
  const std::string size =
      row.least == row.most ? std::to_string(row.most) : fmt::format("{} to {}", row.least, row.most);
  const std::string parts = row.whole == row.count ? "" : fmt::format(" ({} not whole)", row.count - row.whole);
  return text + fmt::format(" of {} bytes{}, {} in all", size, parts, row.bytes);
}

std::string never_right_text(const NeverRight& sender) {
  const std::string address = proto::to_string(sender.address);
  std::string text = fmt::format("{}: the ICRC of all its {} is wrong", address, counted(sender.packets, "packet"));
  if (sender.unplaced != 0) {
    text += fmt::format(", so that {} no connection", counted(sender.unplaced, "belongs to", "belong to"));
  }
  return text + fmt::format(
                    ". Damage would spare some: probably {} computes another ICRC, or a NIC or NAT has changed what is "
                    "in the capture. docs/explain.md has a part on it: A wrong ICRC in all packets",
                    address);
}

std::string rate_text(std::uint64_t bytes, std::int64_t ns) {
  const double bits = static_cast<double>(bytes) * 8e9 / static_cast<double>(ns);
  if (bits >= 1e9) return fmt::format("{:.2f} Gbit/s", bits / 1e9);
  if (bits >= 1e6) return fmt::format("{:.2f} Mbit/s", bits / 1e6);
  return fmt::format("{:.2f} kbit/s", bits / 1e3);
}

}  // namespace uroce::explain
