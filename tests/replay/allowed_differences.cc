#include "tests/replay/allowed_differences.h"

#include <algorithm>
#include <array>

namespace uroce::replay {
namespace {

constexpr std::array kAllowed{
    AllowedDifference{"xx", "A", "hop limit", "64", "7", ""},
};

constexpr std::array kNotReplayed{
    NotReplayed{"uc_*", "AB", "UC is not offered"},
    NotReplayed{"ud_*", "AB", "UD is not offered"},
    NotReplayed{"cm_* loss_cm_*", "AB", "management datagrams need QP1, which is not offered"},
    NotReplayed{"rc_srq", "B", "shared receive queues are not offered"},
    NotReplayed{"rc_mw1_* rc_mw2_* rc_send_inv_mw rc_send_inv_multi", "B", "memory windows are not offered"},
    NotReplayed{"rc_atomic_write", "AB", "ATOMIC WRITE is not offered"},
    NotReplayed{"probe_*", "AB", "packets made by hand, without a record of the verbs"},
};

bool fits_any(std::string_view patterns, std::string_view text) {
  while (!patterns.empty()) {
    const std::size_t end = std::min(patterns.find(' '), patterns.size());
    if (fits(patterns.substr(0, end), text)) return true;
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
  }
  return false;
}

bool has_side(std::string_view sides, Side side) { return sides.find(letter(side)) != std::string_view::npos; }

template <class Row, std::size_t n>
std::string cells(const Row&, const std::array<std::string_view, n>& columns) {
  std::string line = "|";
  for (const std::string_view column : columns) line.append(" ").append(column).append(" |");
  return line + "\n";
}

}  // namespace

std::span<const AllowedDifference> allowed_differences() { return kAllowed; }
std::span<const NotReplayed> not_replayed() { return kNotReplayed; }

const AllowedDifference* allowed(const std::string& topic, Side side, const Difference& d) {
  const auto row = std::find_if(kAllowed.begin(), kAllowed.end(), [&](const AllowedDifference& a) {
    return fits_any(a.topics, topic) && has_side(a.sides, side) && a.aspect == d.aspect && fits(a.rxe, d.rxe) &&
           fits(a.ours, d.ours);
  });
  return row == kAllowed.end() ? nullptr : &*row;
}

const NotReplayed* excused(const std::string& topic, Side side) {
  const auto row = std::find_if(kNotReplayed.begin(), kNotReplayed.end(), [&](const NotReplayed& n) {
    return fits_any(n.topics, topic) && has_side(n.sides, side);
  });
  return row == kNotReplayed.end() ? nullptr : &*row;
}

bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return fits(pattern.substr(1), text) || (!text.empty() && fits(pattern, text.substr(1)));
  }
  return !text.empty() && pattern.front() == text.front() && fits(pattern.substr(1), text.substr(1));
}

std::string markdown() { return {}; }

}  // namespace uroce::replay
