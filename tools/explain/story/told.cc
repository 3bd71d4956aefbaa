// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/told.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace uroce::explain {

std::string_view to_string(Reason reason) {
  constexpr std::array<std::string_view, kReasons> kNames{
      "first",  "nak",          "timeout",    "rnr",     "implied_nak", "unknown",          "network_copy", "reordered",
      "answer", "answer_again", "behind_gap", "credits", "management",  "management_again", "none"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::string_view to_string(Severity severity) {
  constexpr std::array<std::string_view, 4> kNames{"remark", "unusual", "problem", "breach"};
  return kNames[static_cast<std::size_t>(severity)];
}

bool Told::is_problem() const {
  if (is_resent(reason) || reason == Reason::kNetworkCopy || reason == Reason::kReordered) return true;
  if (reason == Reason::kAnswerAgain || reason == Reason::kBehindGap || reason == Reason::kManagementAgain) return true;
  return std::any_of(notes.begin(), notes.end(),
                     [](const Note& n) { return n.severity >= Severity::kProblem && !n.repeated; });
}

std::string Names::operator()(Place place) const {
  if (!place) return "?";
  if (!many_) return fmt::format("#{}", place.frame);
  return place.file < 26 ? fmt::format("{}#{}", static_cast<char>('a' + place.file), place.frame)
                         : fmt::format("{}#{}", place.file + 1, place.frame);
}

std::string hex(std::uint64_t value) { return fmt::format("0x{:x}", value); }
std::string hex(proto::Psn psn) { return hex(std::uint64_t{psn.value()}); }

std::string lost_text(const Packet& packet) {
  if (const std::string_view fault = packet.lost_on_receipt(); !fault.empty()) {
    return fmt::format("{}, injected by its receiver's NIC", fault);
  }
  if (const std::string_view fault = packet.lost_when_sent(); !fault.empty()) {
    return fmt::format("{}, injected by its NIC", fault);
  }
  switch (packet.doubt) {
    case Doubt::kNone:
      return "lost on the way: the other end did not see it";
    case Doubt::kUnheard:
      return "probably lost on the way: the other end did not see it, and sends on as if nothing came";
    case Doubt::kSilence:
      return "probably lost on the way: the other end did not see it, and nothing later";
  }
  return {};
}

std::string duration_text(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  const double size = ns < 0 ? -value : value;
  const auto shown = [](double v, const char* unit) {
    const double s = v < 0 ? -v : v;
    return s < 9.995   ? fmt::format("{:.2f} {}", v, unit)
           : s < 99.95 ? fmt::format("{:.1f} {}", v, unit)
                       : fmt::format("{:.0f} {}", v, unit);
  };
  if (size < 1e3) return fmt::format("{} ns", ns);
  if (size < 999.5e3) return shown(value / 1e3, "us");
  if (size < 999.5e6) return shown(value / 1e6, "ms");
  return shown(value / 1e9, "s");
}

std::string counted(std::uint64_t count, std::string_view singular, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", singular);
  return plural.empty() ? fmt::format("{} {}s", count, singular) : fmt::format("{} {}", count, plural);
}

}  // namespace uroce::explain
