// SPDX-License-Identifier: Apache-2.0
#include "tools/workload/workload.h"

#include <fmt/core.h>

#include <charconv>

namespace uroce::tools {
namespace {

constexpr std::array<std::string_view, kOpCount + 1> kNames = {"send", "send-imm", "write", "write-imm",
                                                               "read", "cas",      "faa",   "mixed"};

}  // namespace

std::string_view op_name(Op op) { return kNames[static_cast<std::size_t>(op)]; }
std::string_view mix_name(Mix mix) { return kNames[static_cast<std::size_t>(mix)]; }

std::optional<Mix> parse_mix(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Mix>(i);
  }
  return std::nullopt;
}

std::uint64_t total_bytes(const Workload& workload, std::uint64_t iterations) {
  const std::uint64_t atomics = count_ops(workload.mix, iterations, is_atomic);
  return atomics * 8 + (iterations - atomics) * workload.size;
}

std::optional<std::string> check(const Workload& w) {
  if (static_cast<std::size_t>(w.mix) >= kNames.size()) return "the operation is unknown";
  if (w.qps < 1 || w.qps > kMaxQps) return fmt::format("the number of QPs must be 1..{}, not {}", kMaxQps, w.qps);
  if (w.size > kMaxMessage) return fmt::format("a message can't be larger than 2 GiB ({} bytes asked)", w.size);
  if (w.iterations < 1 || w.iterations > kMaxIterations) {
    return fmt::format("the number of iterations must be 1..{}, not {}", kMaxIterations, w.iterations);
  }
  if (w.mtu != 256 && w.mtu != 512 && w.mtu != 1024 && w.mtu != 2048 && w.mtu != 4096) {
    return fmt::format("the path MTU must be 256, 512, 1024, 2048 or 4096, not {}", w.mtu);
  }
  if (w.depth < 1 || w.depth > kMaxDepth) return fmt::format("the depth must be 1..{}, not {}", kMaxDepth, w.depth);
  if (w.receive_depth < 1 || w.receive_depth > kMaxDepth) {
    return fmt::format("the receive depth must be 1..{}, not {}", kMaxDepth, w.receive_depth);
  }
  if (w.sges < 1 || w.sges > kMaxSges) return fmt::format("the number of SGEs must be 1..{}, not {}", kMaxSges, w.sges);
  return std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (!suffix.empty()) {
    switch (suffix.front()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        return std::nullopt;
    }
    suffix.remove_prefix(1);
  }
  if (!suffix.empty() && suffix != "iB" && suffix != "B") return std::nullopt;
  if (value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

}  // namespace uroce::tools
