// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/parse.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "proto/base/errno_name.h"
#include "proto/base/number.h"
#include "proto/cm/messages.h"
#include "proto/opcodes.h"

namespace uroce::engine::faults {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

/// enum ibv_wc_status; engine/ does not see <infiniband/verbs.h>, tests/unit/ibverbs/faults_test.cc compares.
constexpr Named<int> kStatuses[] = {{"LOC_LEN_ERR", 1},        {"LOC_QP_OP_ERR", 2},     {"LOC_EEC_OP_ERR", 3},
                                    {"LOC_PROT_ERR", 4},       {"WR_FLUSH_ERR", 5},      {"MW_BIND_ERR", 6},
                                    {"BAD_RESP_ERR", 7},       {"LOC_ACCESS_ERR", 8},    {"REM_INV_REQ_ERR", 9},
                                    {"REM_ACCESS_ERR", 10},    {"REM_OP_ERR", 11},       {"RETRY_EXC_ERR", 12},
                                    {"RNR_RETRY_EXC_ERR", 13}, {"LOC_RDD_VIOL_ERR", 14}, {"REM_INV_RD_REQ_ERR", 15},
                                    {"REM_ABORT_ERR", 16},     {"INV_EECN_ERR", 17},     {"INV_EEC_STATE_ERR", 18},
                                    {"FATAL_ERR", 19},         {"RESP_TIMEOUT_ERR", 20}, {"GENERAL_ERR", 21}};

/// IBTA Vol 1, table "REJ reason codes": those that programs meet.
constexpr Named<int> kReasons[] = {{"no_qp", 1},        {"no_resources", 3}, {"timeout", 4},
                                   {"unsupported", 5},  {"no_listener", 8},  {"stale_connection", 10},
                                   {"invalid_gid", 12}, {"invalid_mtu", 26}, {"consumer", 28}};

constexpr Named<double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"h", 3600e9}};

template <class T, std::size_t N>
std::optional<T> find(const Named<T> (&table)[N], std::string_view name) {
  for (const Named<T>& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

/// A number at the beginning of `text`, and what follows it.
std::optional<std::pair<double, std::string_view>> leading_number(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(rest - text.data())));
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  const auto value = parse_number<std::uint64_t>(text);
  return value == 0 ? std::nullopt : value;
}

/// By proto::Service. CNPs stand alone.
constexpr std::string_view kServices[] = {"rc_", "uc_", "ud_", ""};
std::string_view service_of(const proto::OpcodeInfo& op) { return kServices[static_cast<std::size_t>(op.service)]; }

/// Whether `name` begins with the whole words `text`.
bool begins_with(std::string_view name, std::string_view text) {
  return !text.empty() && after(name, text) && (name.size() == text.size() || name[text.size()] == '_');
}

std::string in_small_letters(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == ' ' ? '_' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

/// "RC SEND FIRST" as users write it: "send_first".
std::string spelled(const proto::OpcodeInfo& op) {
  std::string_view name = op.name;
  if (const std::size_t space = name.find(' '); space != name.npos) name.remove_prefix(space + 1);
  return in_small_letters(name);
}

/// "req" of "cm_req", or nothing for all of them.
bool parse_message(std::string_view name, PacketFault& fault) {
  fault.opcodes.reset();
  fault.opcodes.set(static_cast<std::size_t>(proto::Opcode::kUdSendOnly));
  fault.messages.reset();
  for (std::size_t i = 0; i < proto::cm::kMessages.size(); ++i) {
    if (name.empty() || begins_with(in_small_letters(proto::cm::kMessages[i].name), name)) fault.messages.set(i);
  }
  return fault.messages.any();
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::pair<std::string_view, std::optional<std::string_view>> split_at(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == text.npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return std::nullopt;
  return text.substr(prefix.size());
}

std::optional<std::uint32_t> parse_24_bits(std::string_view text) {
  const auto value = parse_decimal_or_hex<std::uint32_t>(text);
  return value > 0xFFFFFFu ? std::nullopt : value;
}

std::optional<PsnRange> parse_psns(std::string_view text) {
  const auto from_first = after(text, "+");
  if (from_first) text = *from_first;
  const std::size_t dots = text.find("..");
  const auto first = parse_24_bits(text.substr(0, dots));
  const auto last = dots == text.npos ? first : parse_24_bits(text.substr(dots + 2));
  if (!first || !last || (from_first && *first > *last)) return std::nullopt;
  return PsnRange{from_first.has_value(), *first, *last};
}

std::optional<QpName> parse_qp(std::string_view text) {
  if (const auto number = parse_24_bits(text)) return QpName{false, *number};
  for (const std::string_view ending : {"st", "nd", "rd", "th"}) {
    if (!text.ends_with(ending)) continue;
    const auto place = parse_count(text.substr(0, text.size() - ending.size()));
    if (place && *place <= std::numeric_limits<std::uint32_t>::max())
      return QpName{true, static_cast<std::uint32_t>(*place)};
  }
  return std::nullopt;
}

std::optional<double> parse_probability(std::string_view text) {
  const auto number = leading_number(text);
  if (!number || (number->second != "" && number->second != "%")) return std::nullopt;
  const bool percent = number->second == "%";
  if (percent ? number->first > 100 : number->first >= 1) return std::nullopt;  // Is 1 meant to be 1% or 100%?
  return percent ? number->first / 100 : number->first;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto number = leading_number(text);
  const auto unit = number ? find(kUnits, number->second) : std::nullopt;
  constexpr double kDay = 86400e9;
  if (!unit || number->first * *unit > kDay) return std::nullopt;
  return Duration{static_cast<Duration::rep>(number->first * *unit)};
}

std::optional<std::pair<Duration, Duration>> parse_duration_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto from = parse_duration(text.substr(0, dots));
  const auto to = dots == text.npos ? from : parse_duration(text.substr(dots + 2));
  if (!from || !to || *from > *to) return std::nullopt;
  return std::pair(*from, *to);
}

std::optional<Which> parse_which(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto first = parse_count(text.substr(0, dots));
  const auto last = dots == text.npos         ? first
                    : dots + 2 == text.size() ? std::optional(Which::kNoEnd)
                                              : parse_count(text.substr(dots + 2));
  if (!first || !last || *first > *last) return std::nullopt;
  return Which{*first, *last};
}

std::optional<int> parse_errno(std::string_view text) {
  constexpr int kEnd = 4096;  // The kernel's MAX_ERRNO, and one more.
  if (const auto number = parse_24_bits(text); number && *number > 0 && *number < kEnd)
    return static_cast<int>(*number);
  return proto::errno_named(text);
}

std::optional<int> parse_status(std::string_view text) { return find(kStatuses, text); }

std::optional<int> parse_reason(std::string_view text) {
  if (const auto number = parse_24_bits(text); number && *number > 0 && *number <= 0xFFFF)
    return static_cast<int>(*number);
  return find(kReasons, text);
}

bool parse_operation(std::string_view text, PacketFault& fault) {
  using Answer = PacketFault::Answer;
  if (text == "cm") return parse_message("", fault);
  if (const auto message = after(text, "cm_"); message && !message->empty()) return parse_message(*message, fault);
  std::string_view service;
  for (const std::string_view prefix : kServices) {
    if (service.empty() && !prefix.empty() && after(text, prefix)) service = prefix;
  }
  text.remove_prefix(service.size());
  fault.answer = text == "nak"   ? Answer::kNak
                 : text == "rnr" ? Answer::kRnr
                 : text == "ack" ? Answer::kAck
                                 : Answer::kAny;
  if (fault.answer != Answer::kAny) text = "ack";
  if (text == "read") text = "read_request";
  fault.opcodes.reset();
  for (const proto::OpcodeInfo& op : proto::kOpcodes) {
    if (!service.empty() && service != service_of(op)) continue;
    const bool matches = text == "atomic" ? op.kind == proto::Kind::kCompareSwap || op.kind == proto::Kind::kFetchAdd
                                          : begins_with(spelled(op), text);
    if (matches) fault.opcodes.set(static_cast<std::size_t>(op.code));
  }
  return fault.opcodes.any();
}

}  // namespace uroce::engine::faults
