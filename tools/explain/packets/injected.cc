// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/injected.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <system_error>

#include "engine/faults/parse.h"

namespace uroce::explain {
namespace {

/// Takes the first of several words in a row that have `separator` between them.
std::string_view take_part(std::string_view& rest, std::string_view separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + separator.size());
  return part;
}

/// What the faults did, without the NIC's own words behind it.
std::string_view deeds(std::string_view comment) {
  constexpr std::string_view kUroce = "uroce: ";
  if (!comment.starts_with(kUroce)) return {};
  comment.remove_prefix(kUroce.size());
  return take_part(comment, "; ");
}

}  // namespace

std::string_view injected(std::string_view comment, std::string_view did) {
  std::string_view rest = deeds(comment);
  while (!rest.empty()) {
    const std::string_view deed = take_part(rest, ", ");
    if (deed.starts_with(did) && deed.substr(did.size()).starts_with(' ')) return deed;
  }
  return {};
}

bool is_of_receiver(std::string_view comment) { return deeds(comment).find(" by rx.") != std::string_view::npos; }

std::string_view holding_fault(std::string_view comment) {
  const std::string_view reordered = injected(comment, "held back");
  return reordered.empty() ? injected(comment, "delayed") : reordered;
}

std::int64_t late_ns(std::string_view comment) {
  std::string_view rest = deeds(comment);
  while (!rest.empty()) {
    const std::string_view deed = take_part(rest, ", ");
    std::int64_t us = 0;
    const auto [end, error] = std::from_chars(deed.data(), deed.data() + deed.size(), us);
    const std::string_view unit = deed.substr(static_cast<std::size_t>(end - deed.data()));
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1'000;
    if (error == std::errc() && unit == " us late" && us >= 0 && us <= kMost) return us * 1'000;
  }
  return 0;
}

Holding holding(std::string_view comment) {
  /// The NIC lets go what nothing overtakes (engine/faults/faulty.h).
  constexpr std::int64_t kOvertakenWithin = 20'000'000;
  Holding time;
  if (std::string_view fault = injected(comment, "delayed"); !fault.empty()) {
    fault.remove_prefix(std::min(fault.size(), fault.find('=')));
    fault = fault.substr(std::min<std::size_t>(fault.size(), 1), fault.find_first_of("@#") - 1);
    const auto range = engine::faults::parse_duration_range(fault);
    // One that is not known may have been any.
    constexpr std::int64_t kAny = 1'000'000'000;
    time.least_ns = range ? std::chrono::nanoseconds(range->first).count() : 0;
    time.most_ns = range ? std::chrono::nanoseconds(range->second).count() : kAny;
  }
  if (!injected(comment, "held back").empty()) {
    time.least_ns = 0;  // The next packet may let it go.
    time.most_ns += kOvertakenWithin;
  }
  return time;
}

}  // namespace uroce::explain
