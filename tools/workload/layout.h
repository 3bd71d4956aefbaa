// SPDX-License-Identifier: Apache-2.0
// Where what lies in the one memory region of a side: a part per QP, and in each part, as far as the workload needs
// them,
//
//   out       slots            what this side sends or writes from, and where its READs and atomics land
//   in        receive slots    where the peer's SENDs land
//   window    slots            where the peer's WRITEs land
//   source    one              what the peer READs
//   counters  two words        what the peer's CAS and FAA work on
//
// Iteration i uses slot i modulo the number of slots. Data that is verified has a slot for each operation that can be
// outstanding. Other operations share slots, as perftest's do: how much is outstanding must not decide how much of it
// the processor's caches hold. Both sides compute the same layout from the workload, so the metadata need to name only
// the beginning of each QP's part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/workload/workload.h"

namespace uroce::tools {

/// What a side does: post operations, be the target of the peer's, or both.
struct Roles {
  bool initiates = false;
  bool targets = false;
};

struct Layout {
  std::uint64_t out = 0, in = 0, window = 0, source = 0, counters = 0;  ///< Offsets within a QP's part.
  std::uint64_t local_stride = 0;                                       ///< From slot to slot of out and in.
  std::uint64_t window_stride = 0;
  std::uint64_t slots = 0;          ///< Of out and of window.
  std::uint64_t receive_slots = 0;  ///< Of in.
  std::uint64_t per_qp = 0;         ///< Length of a QP's part.
};
Layout make_layout(const Workload& workload, Roles roles);

/// A piece of a local message: with several SGEs, a message lies in pieces with gaps between them.
struct Piece {
  std::uint64_t in_message = 0;  ///< Offset of its first byte in the message ...
  std::uint64_t in_slot = 0;     ///< ... and in the slot.
  std::uint64_t length = 0;
};
/// The pieces of a message of `size` bytes: min(sges, size) of them, differing by a byte at most; none for size 0.
std::vector<Piece> split_message(std::uint64_t size, std::uint32_t sges);

/// What the NICs and the memory of the two sides allow.
struct Limits {
  std::uint64_t memory_bytes = 0;  ///< Per side.
  std::uint32_t queue_wrs = 0;     ///< Longest send or receive queue.
  std::uint32_t completions = 0;   ///< Longest completion queue.
};
/// Completions that can be waiting on one side.
std::uint64_t completion_entries(const Workload& workload);
/// Sets workload.receive_depth, and reduces workload.depth until everything fits. Returns why it can't, in one
/// sentence, when even one operation per QP is too much.
std::optional<std::string> fit(Workload& workload, const Limits& limits);

}  // namespace uroce::tools
