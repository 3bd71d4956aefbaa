// SPDX-License-Identifier: Apache-2.0
#include "tools/workload/layout.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/workload/pattern.h"

namespace uroce::tools {
namespace {

constexpr std::uint64_t kGap = 64;  ///< Between the pieces of a message.
constexpr std::uint64_t kAlign = 64;
constexpr std::uint64_t kReceivesAtLeast = 64;
constexpr std::uint64_t kSmallMessage = 16384;  ///< Receives for these cost next to nothing.
/// Slots that are not verified take so much of a side's memory, if one per QP does not take more: half of the L2 cache
/// of the smallest processors.
constexpr std::uint64_t kSharedBytes = 256 << 10;

constexpr std::uint64_t align_up(std::uint64_t value) { return (value + kAlign - 1) / kAlign * kAlign; }

Roles roles_of(const Workload& workload, bool client) {
  return {client || workload.bidirectional, !client || workload.bidirectional};
}

/// Bytes that the larger of the two sides registers.
std::uint64_t memory_needed(const Workload& workload) {
  const std::uint64_t client = make_layout(workload, roles_of(workload, true)).per_qp;
  const std::uint64_t server = make_layout(workload, roles_of(workload, false)).per_qp;
  return std::max(client, server) * workload.qps;
}

bool fits(const Workload& workload, const Limits& limits) {
  return memory_needed(workload) <= limits.memory_bytes && workload.depth <= limits.queue_wrs &&
         workload.receive_depth <= limits.queue_wrs && completion_entries(workload) <= limits.completions;
}

}  // namespace

Layout make_layout(const Workload& w, Roles roles) {
  const bool data = any_op(w.mix, [](Op op) { return !is_atomic(op); });
  const std::uint64_t message = data ? std::max<std::uint64_t>(w.size, 8) : 8;
  Layout layout;
  layout.local_stride = align_up(message + (w.sges - 1) * kGap);
  layout.window_stride = align_up(message);
  const std::uint64_t shared = std::max<std::uint64_t>(1, kSharedBytes / (layout.local_stride * w.qps));
  const auto slots_for = [&](std::uint64_t depth) { return w.verify ? depth : std::min(depth, shared); };
  layout.slots = slots_for(w.depth);
  layout.receive_slots = slots_for(w.receive_depth);
  std::uint64_t end = 0;
  const auto place = [&end](std::uint64_t bytes) {
    const std::uint64_t begin = end;
    end += bytes;
    return begin;
  };
  if (roles.initiates) layout.out = place(layout.local_stride * layout.slots);
  if (roles.targets) {
    if (any_op(w.mix, lands_in_receive)) layout.in = place(layout.local_stride * layout.receive_slots);
    if (any_op(w.mix, is_write)) layout.window = place(layout.window_stride * layout.slots);
    if (any_op(w.mix, [](Op op) { return op == Op::kRead; })) layout.source = place(align_up(message + kReadSpread));
    if (any_op(w.mix, is_atomic)) layout.counters = place(align_up(16));
  }
  layout.per_qp = std::max(end, kAlign);
  return layout;
}

std::vector<Piece> split_message(std::uint64_t size, std::uint32_t sges) {
  const std::uint64_t count = std::min<std::uint64_t>(sges, size);
  std::vector<Piece> pieces;
  std::uint64_t in_message = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t length = size / count + (i < size % count ? 1 : 0);
    pieces.push_back({in_message, in_message + i * kGap, length});
    in_message += length;
  }
  return pieces;
}

std::uint64_t completion_entries(const Workload& w) {
  const std::uint32_t receives = any_op(w.mix, uses_receive) ? w.receive_depth : 0;
  // Every side can probe each of its QPs once, even one that only receives.
  return std::uint64_t{w.qps} * (std::uint64_t{w.depth} + receives);
}

std::optional<std::string> fit(Workload& w, const Limits& limits) {
  // No more slots than operations: a short run needs little memory.
  w.depth = static_cast<std::uint32_t>(std::min<std::uint64_t>(w.depth, w.iterations));
  for (; w.depth >= 1; --w.depth) {
    // An acknowledgement says that a message has arrived, not that its receive has been posted again. So more receives
    // than the peer can have outstanding: while we look at some, or sleep, the next messages find room.
    const std::uint64_t expected = std::max<std::uint64_t>(1, count_ops(w.mix, w.iterations, uses_receive));
    const std::uint64_t depth = w.depth;
    const std::uint64_t ample = w.size <= kSmallMessage ? 4 * depth : 2 * depth;
    for (const std::uint64_t receives : {std::max(kReceivesAtLeast, ample), 2 * depth, depth}) {
      w.receive_depth = static_cast<std::uint32_t>(std::min({receives, expected, std::uint64_t{kMaxDepth}}));
      if (fits(w, limits)) return std::nullopt;
    }
  }
  w.depth = 1;
  w.receive_depth = 1;
  if (memory_needed(w) > limits.memory_bytes) {
    return fmt::format("{} QPs with messages of {} need {} of memory for one message per QP, more than --max-memory {}",
                       w.qps, size_text(w.size), size_text(memory_needed(w)), size_text(limits.memory_bytes));
  }
  return fmt::format("{} QPs need a completion queue of {} entries; the devices allow {}", w.qps, completion_entries(w),
                     limits.completions);
}

}  // namespace uroce::tools
