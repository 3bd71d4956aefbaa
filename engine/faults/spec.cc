// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/spec.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

#include "engine/faults/parse.h"
#include "proto/base/number.h"

namespace uroce::engine::faults {

bool Interval::contains(Duration since_start) const {
  if (since_start < from) return false;
  const Duration inside = period.count() == 0 ? since_start : from + (since_start - from) % period;
  return inside < to;
}

std::optional<Duration> Interval::next_edge(Duration since_start) const {
  if (since_start < from) return from;
  if (period.count() == 0) return since_start < to ? std::optional(to) : std::nullopt;
  const Duration round = from + (since_start - from) / period * period;
  return since_start < round + (to - from) ? round + (to - from) : round + period;
}

const char* to_string(Kind kind) {
  constexpr std::array kNames{"drop", "dup", "reorder", "delay", "corrupt", "ecn"};
  return kNames.at(static_cast<std::size_t>(kind));
}

namespace {

using Failure = std::optional<std::string>;  ///< What is wrong with a value; nothing when it was taken.

struct NamedKind {
  std::string_view name;
  Kind kind;
};
constexpr NamedKind kKinds[] = {{"loss", Kind::kDrop},       {"drop", Kind::kDrop},   {"dup", Kind::kDuplicate},
                                {"reorder", Kind::kReorder}, {"delay", Kind::kDelay}, {"corrupt", Kind::kCorrupt},
                                {"ecn", Kind::kEcn}};

/// `text` is none of those that have been taken: all of them must hold, and the values of two could not.
Failure take_condition(std::string_view text, PacketFault& fault) {
  if (const auto psn = after(text, "psn:")) {
    fault.psn = parse_psns(*psn);
    return fault.psn ? Failure{}
                     : "psn: needs a PSN, or how far it is from the QP's first one, or a range of them, each of up to "
                       "24 bits: psn:0x101, psn:0x101..0x110, psn:+0, psn:+0..15";
  }
  if (const auto qpn = after(text, "qp:")) {
    fault.qp = parse_qp(*qpn);
    return fault.qp ? Failure{} : "a QP is its number, or its place in the order of creation: qp:0x11, qp:1st";
  }
  if (const auto size = after(text, "size:")) {
    const std::size_t dots = size->find("..");
    const auto from = parse_24_bits(size->substr(0, dots));
    const auto to = dots == size->npos ? from : parse_24_bits(size->substr(dots + 2));
    if (!from || !to || *from > *to) return "size: needs a number of payload bytes, such as 0 or 100..200";
    fault.size_min = *from;
    fault.size_max = *to;
    return {};
  }
  if (const auto op = after(text, "op:")) {
    if (parse_operation(*op, fault)) return {};
    return "op: needs the beginning of an opcode's name, such as send, rc_write_last, read, read_response_middle, "
           "atomic, ack, nak, rnr, compare_swap, or cm, cm_req, cm_rep, cm_dreq ...";
  }
  const auto probability = parse_probability(text);
  if (!probability)
    return "a condition is a probability such as 1%, 0.01 or 100%, or psn:N, qp:N, qp:1st, op:NAME, size:N";
  fault.probability = *probability;
  return {};
}

constexpr const char* kReorderForm =
    "reorder has the number of overtaking packets (1 to 16777215) behind its conditions, and # behind that: "
    "reorder=2%:3, reorder=op:write:3#2";

Failure take_packet_fault(Kind kind, Direction direction, std::string_view value, FaultSpec& spec) {
  PacketFault fault;
  fault.kind = kind;
  fault.direction = direction;
  auto [conditions, which] = split_at(value, '#');
  if (which) {
    const auto range = parse_which(*which);
    if (!range && kind == Kind::kReorder && which->find(':') != which->npos) return kReorderForm;
    if (!range) return "# needs the number of a packet, or a range such as 2..5";
    fault.which = *range;
  }
  if (kind == Kind::kReorder) {
    const std::size_t colon = conditions.rfind(':');
    fault.distance = colon == conditions.npos ? 0 : parse_24_bits(conditions.substr(colon + 1)).value_or(0);
    if (fault.distance == 0) return kReorderForm;
    conditions = conditions.substr(0, colon);
  }
  std::vector<std::string_view> parts = split(conditions, '@');
  if (which && parts.back().empty()) parts.pop_back();  // "drop=#3", "delay=5ms@#3"
  if (kind == Kind::kDelay) {
    const auto range = parse_duration_range(parts.empty() ? "" : parts.front());
    if (!range)
      return "a delay is a time in ns, us, ms, s or h, of a day at most, such as 5ms, or a range such as 50us..2ms; "
             "conditions follow after @";
    fault.delay_min = range->first;
    fault.delay_max = range->second;
    parts.erase(parts.begin());
  }
  std::vector<std::string_view> taken;
  for (const std::string_view part : parts) {
    const std::size_t colon = part.find(':');
    const std::string_view name = colon == part.npos ? "" : part.substr(0, colon + 1);  // "": a probability.
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
      return "all conditions must hold, so that there is one of each kind; write two items for this packet or that one";
    }
    taken.push_back(name);
    if (Failure failure = take_condition(part, fault)) return failure;
  }
  spec.packets.push_back(fault);
  return {};
}

Failure take_interval(std::string_view value, std::vector<Interval>& list) {
  const auto [range_text, period_text] = split_at(value, '/');
  const auto range = parse_duration_range(range_text);
  const auto period = period_text ? parse_duration(*period_text) : std::optional(Duration{});
  const bool fits =
      range && range->first < range->second && period && (!period_text || *period >= range->second - range->first);
  if (!fits) return "expected: a range of times since the start such as 2s..3s, optionally with a period: 2s..3s/10s";
  list.push_back({range->first, range->second, *period});
  return {};
}

/// Every change of the port is an event for the program: so many that nobody can read them are not wanted.
constexpr Duration kPortChangesWithin = std::chrono::milliseconds(1);

Failure take_port_down(std::string_view value, std::vector<Interval>& list) {
  if (Failure failure = take_interval(value, list)) return failure;
  const Interval& taken = list.back();
  const Duration down = taken.to - taken.from;
  const bool fits =
      down >= kPortChangesWithin && (taken.period.count() == 0 || taken.period - down >= kPortChangesWithin);
  return fits ? Failure{} : "a port stays down for 1 ms at least, and up for 1 ms before it goes down again";
}

/// "qp:1st@1s"
Failure take_qp_fault(std::string_view value, std::vector<QpFault>& list) {
  const auto [qp_text, time_text] = split_at(value, '@');
  const auto name = after(qp_text, "qp:");
  const auto qp = name ? parse_qp(*name) : std::nullopt;
  const auto at = time_text ? parse_duration(*time_text) : std::nullopt;
  if (!qp || !at) return "expected: a QP and the time since the start, such as qp:1st@1s or qp:0x11@1s";
  list.push_back({.qp = *qp, .at = *at});
  return {};
}

/// "NAME#N:VALUE" or "qp:N#N:VALUE", split into its three parts.
struct NthParts {
  std::string_view subject, value;
  Which which;
};
std::optional<NthParts> parse_nth(std::string_view text) {
  const auto [subject, rest] = split_at(text, '#');
  if (!rest) return std::nullopt;
  const auto [which_text, value] = split_at(*rest, ':');
  const auto which = parse_which(which_text);
  if (!which || !value) return std::nullopt;
  return NthParts{subject, *value, *which};
}

Failure take_call(std::string_view value, FaultSpec& spec) {
  const auto parts = parse_nth(value);
  const auto error = parts ? parse_errno(parts->value) : std::nullopt;
  if (!error || parts->subject.empty())
    return "expected: a verb, which call, and an errno, such as ibv_create_cq#3:ENOMEM";
  spec.calls.push_back({std::string(parts->subject), parts->which, *error});
  return {};
}

Failure take_wr(std::string_view value, FaultSpec& spec) {
  const auto parts = parse_nth(value);
  const auto name = parts ? after(parts->subject, "qp:") : std::nullopt;
  const auto qp = name ? parse_qp(*name) : std::nullopt;
  const auto status = parts ? parse_status(parts->value) : std::nullopt;
  if (!qp || !status) {
    return "expected: a QP, which of its send WRs, and a completion status without IBV_WC_, such as "
           "qp:1st#5:RETRY_EXC_ERR";
  }
  spec.wrs.push_back({*qp, parts->which, *status});
  return {};
}

constexpr std::pair<std::string_view, CmFault::Kind> kCmKinds[] = {
    {"addr_error", CmFault::Kind::kAddressError}, {"route_error", CmFault::Kind::kRouteError},
    {"unreachable", CmFault::Kind::kUnreachable}, {"rejected", CmFault::Kind::kRejected},
    {"reject", CmFault::Kind::kReject},           {"disconnect", CmFault::Kind::kDisconnect}};

/// The first part of an item "cm.KIND=VALUE@PROBABILITY#N".
Failure take_cm_value(std::string_view text, CmFault& fault) {
  using Kind = CmFault::Kind;
  if (fault.kind == Kind::kDisconnect) {
    const auto life = parse_duration(text);
    if (!life) return "expected: how long the connection lives, such as 1s";
    fault.after = *life;
    return {};
  }
  const bool has_reason = fault.kind == Kind::kRejected || fault.kind == Kind::kReject;
  const auto value = has_reason ? parse_reason(text) : parse_errno(text);
  if (!value) {
    return has_reason
               ? "expected: a reason, by number (1 to 65535) or name: no_qp, no_resources, timeout, unsupported, "
                 "no_listener, stale_connection, invalid_gid, invalid_mtu, consumer"
               : "expected: an errno, such as ETIMEDOUT";
  }
  fault.value = *value;
  return {};
}

Failure take_cm_fault(std::string_view name, std::string_view value, FaultSpec& spec) {
  CmFault fault;
  const auto* const named =
      std::find_if(std::begin(kCmKinds), std::end(kCmKinds), [name](const auto& row) { return row.first == name; });
  if (named == std::end(kCmKinds))
    return "the faults of connections are addr_error, route_error, unreachable, rejected, reject, disconnect";
  fault.kind = named->second;
  const auto [conditions, which] = split_at(value, '#');
  const auto range = which ? parse_which(*which) : fault.which;
  if (!range) return "# needs a number, or a range such as 2..5";
  fault.which = *range;
  const auto [what, probability] = split_at(conditions, '@');
  if (probability) {
    const auto parsed = parse_probability(*probability);
    if (!parsed) return "expected: a probability such as 5% behind @";
    fault.probability = *parsed;
  }
  if (Failure failure = take_cm_value(what, fault)) return failure;
  spec.connections.push_back(std::move(fault));
  return {};
}

Failure take(std::string_view key, std::string_view value, FaultSpec& spec) {
  Direction direction = Direction::kSent;
  std::string_view bare = key;
  if (const auto rest = after(key, "rx.")) {
    direction = Direction::kReceived;
    bare = *rest;
  }
  for (const NamedKind& named : kKinds) {
    if (named.name == bare) return take_packet_fault(named.kind, direction, value, spec);
  }
  if (key == "seed") {
    const auto seed = parse_number<std::uint64_t>(value);
    if (!seed) return "a seed is a whole number";
    spec.seed = *seed;
    return {};
  }
  if (key == "rnr") {
    const auto probability = parse_probability(value);
    if (!probability) return "expected: a probability such as 5%";
    spec.rnr = *probability;
    return {};
  }
  if (key == "blackout") return take_interval(value, spec.blackouts);
  if (key == "port") {
    const auto interval = after(value, "down@");
    return interval ? take_port_down(*interval, spec.port_down) : "expected: port=down@2s..3s";
  }
  if (key == "qp_fatal") return take_qp_fault(value, spec.qp_fatal);
  if (key == "cq_overflow") return take_qp_fault(value, spec.cq_overflow);
  if (key == "device_fatal") {
    const auto at = parse_duration(value);
    if (!at) return "expected: the time since the start, such as 5s";
    spec.device_fatal = *at;
    return {};
  }
  if (key == "call") return take_call(value, spec);
  if (key == "wr") return take_wr(value, spec);
  if (const auto name = after(key, "cm.")) return take_cm_fault(*name, value, spec);
  return "there is no such fault; the names are seed, loss, drop, dup, reorder, delay, corrupt, ecn (each also with "
         "rx. in front), rnr, blackout, port, qp_fatal, cq_overflow, device_fatal, call, wr, cm.reject, cm.disconnect "
         "...";
}

/// Of which a list has one.
constexpr std::string_view kOnce[] = {"seed", "rnr", "device_fatal"};

Failure take_item(std::string_view item, FaultSpec& spec, std::vector<std::string_view>& taken_once) {
  if (item.empty()) return "there is nothing in front of or behind a comma: leave it out";
  if (item.find_first_of(" \t\n") != item.npos) return "leave out the spaces";
  const auto [key, value] = split_at(item, '=');
  if (!value) return "an item is of the form NAME=VALUE";
  if (std::find(std::begin(kOnce), std::end(kOnce), key) != std::end(kOnce)) {
    if (std::find(taken_once.begin(), taken_once.end(), key) != taken_once.end())
      return std::string(key) + " is there already, and a list has one";
    taken_once.push_back(key);
  }
  return take(key, *value, spec);
}

/// Gives what `item` has added its text.
void name_last(FaultSpec& spec, std::string_view item) {
  const auto name = [item](auto& list) {
    if (!list.empty() && list.back().text.empty()) list.back().text = std::string(item);
  };
  name(spec.packets);
  name(spec.blackouts);
  name(spec.port_down);
  name(spec.qp_fatal);
  name(spec.cq_overflow);
  name(spec.connections);
}

}  // namespace

Result<FaultSpec, std::string> parse_faults(std::string_view text) {
  FaultSpec spec;
  if (text.empty()) return spec;
  std::vector<std::string_view> taken_once;
  for (std::string_view item : split(text, ',')) {
    if (const Failure failure = take_item(item, spec, taken_once))
      return Err{"'" + std::string(item) + "': " + *failure};
    name_last(spec, item);
  }
  return spec;
}

}  // namespace uroce::engine::faults
