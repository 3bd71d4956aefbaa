// SPDX-License-Identifier: Apache-2.0
// What the simulated programs post, as the oracle remembers it.
#pragma once

#include <array>
#include <string>

#include "tests/judged/sim/atomic_word.h"
#include "tests/judged/sim/memory.h"
#include "verbs/nic/model/names.h"
#include "verbs/nic/model/types.h"

namespace uroce::simulator {

/// Set of work completion statuses.
using Statuses = std::uint32_t;
constexpr Statuses only(nic::WcStatus status) { return 1u << static_cast<unsigned>(status); }
constexpr bool contains(Statuses set, nic::WcStatus status) { return (set & only(status)) != 0; }
std::string_view to_string(nic::SendOp op);

inline constexpr std::size_t kSgesMax = 8;

/// Scatter/gather list: pieces of one slot of a host's memory, with gaps between them that must stay untouched.
struct Pieces {
  Extent slot;  ///< What was taken from the area.
  std::array<Extent, kSgesMax> pieces{};
  std::uint32_t count = 0;

  std::uint32_t length() const {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) sum += pieces[i].length;
    return sum;
  }
  /// Calls fn(extent, offset in the message) for each piece that has bytes.
  template <class Fn>
  void for_each(Fn fn) const {
    std::uint32_t offset = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (pieces[i].length != 0) fn(pieces[i], offset);
      offset += pieces[i].length;
    }
  }
};

/// What is wrong with a request, on purpose.
enum class Flaw : std::uint8_t {
  kNone,
  kBadRkey,
  kOutOfBounds,
  kNoRight,
  kBadLkey,
  // For windows: bounds or rights of the window where the region has more; a key of a former binding; one of another
  // QP's; a bind or an invalidation that may not be.
  kWindowBounds,
  kWindowRight,
  kWindowStale,
  kWindowForeign,
  kBadBind
};

/// The peer refuses it for the memory that it names.
constexpr bool is_refused(Flaw flaw) { return flaw != Flaw::kNone && flaw != Flaw::kBadLkey && flaw != Flaw::kBadBind; }

/// A posted send WR.
struct Op {
  std::uint64_t id = 0;  ///< wr_id; counts up over the whole run.
  nic::SendOp kind = nic::SendOp::kSend;
  bool signaled = false, is_inline = false;
  std::uint32_t imm = 0;
  std::uint32_t key = 0;   ///< SEND_INV, LOCAL_INV: what is invalidated.
  bool to_memory = false;  ///< BIND_MW: gives the window memory, and does not take it away.
  std::uint32_t length = 0;
  std::uint64_t seed = 0;         ///< For its bytes (SEND, WRITE), or ...
  Extent source;                  ///< ... READ: where they come from, in the peer's memory.
  std::uint64_t source_seed = 0;  ///< READ of what an earlier WRITE wrote: that one's seed; else 0.
  Pieces local;
  bool whole_region = false;  ///< FLUSH: not of a range.
  Extent remote;              ///< WRITE, READ, FLUSH: in the peer's memory.
  std::size_t word = 0;       ///< Atomics: which word of the peer's host.
  AtomicOp atomic;
  Flaw flaw = Flaw::kNone;
  bool windowed = false;            ///< Names the peer's memory by its window.
  std::uint32_t faults_before = 0;  ///< By the network, that had hit the connection when it was posted.
  std::uint32_t message = 0;        ///< SEND and WRITE with immediate: number among those of its connection.
  bool committed = false;           ///< WRITE: its bytes are known to have arrived.
  Instant posted{};

  bool is_read() const { return kind == nic::SendOp::kRead; }
  bool is_atomic() const { return kind == nic::SendOp::kCompareSwap || kind == nic::SendOp::kFetchAdd; }
  bool is_atomic_write() const { return kind == nic::SendOp::kAtomicWrite; }
  bool is_flush() const { return kind == nic::SendOp::kFlush; }
  bool is_write() const { return kind == nic::SendOp::kWrite || kind == nic::SendOp::kWriteImm || is_atomic_write(); }
  /// Is limited by max_rd_atomic at both ends.
  bool counts_as_read() const { return is_read() || is_atomic() || is_atomic_write(); }
  /// Always 8 bytes, at a multiple of 8.
  bool is_word() const { return is_atomic() || is_atomic_write(); }
  bool is_send() const {
    return kind == nic::SendOp::kSend || kind == nic::SendOp::kSendImm || kind == nic::SendOp::kSendInv;
  }
  /// Executed by its own NIC: no packet.
  bool is_local() const { return kind == nic::SendOp::kBindMw || kind == nic::SendOp::kLocalInv; }
  bool has_imm() const { return kind == nic::SendOp::kWriteImm || kind == nic::SendOp::kSendImm; }
  bool consumes_receive() const { return is_send() || kind == nic::SendOp::kWriteImm; }
};

/// A READ of more than this is asked for in several requests (docs/adr/0005).
inline constexpr std::uint32_t kReadPiece = 64 * 1024;

/// wr_ids of receives are above this: a failed completion does not say which queue it is of.
inline constexpr std::uint64_t kFirstReceiveId = 1'000'000'000;

/// A posted receive WR.
struct Receive {
  std::uint64_t id = 0;
  Pieces local;
};

/// A message that takes a receive at the peer: what its completion must say.
struct Message {
  std::uint64_t op_id = 0;
  std::uint64_t seed = 0;
  std::uint32_t length = 0;
  std::uint32_t imm = 0;
  bool has_imm = false;
  bool is_write = false;
  bool invalidates = false;
  std::uint32_t key = 0;  ///< Of the window that it invalidates.
};

}  // namespace uroce::simulator
