// SPDX-License-Identifier: Apache-2.0
// What the responder keeps of requests that have an answer of their own, READs and atomics above all: answers still to
// be sent, and what it takes to answer duplicates.
#pragma once

#include <algorithm>
#include <vector>

#include "proto/base/check.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/types.h"
#include "verbs/nic/resources/wrapped.h"

namespace uroce::nic {

/// A PSN that does not wrap: its low 24 bits are the PSN. What lies a whole number space back is thus not taken for
/// what comes now.
using LongPsn = std::uint64_t;
inline Psn short_psn(LongPsn psn) { return Psn{static_cast<std::uint32_t>(psn)}; }

/// Which answer a duplicate gets: the data again, the value that was there, or just a READ response without data.
enum class AnswerKind : std::uint8_t { kRead, kAtomic, kAtomicWrite, kFlush };

/// One of them that was executed.
struct Replay {
  AnswerKind kind = AnswerKind::kRead;
  LongPsn first_psn = 0;
  std::uint32_t packets = 0;  ///< 0: empty place.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t original = 0;  ///< Atomics: the answer.
};

/// The last ones of them, as many as the peer may have outstanding.
class ReplayRing {
 public:
  void clear() { ring_.clear(), next_ = 0; }
  /// Makes room for `depth` of them; bad_alloc: nothing has changed. Never for less than before: the peer may still ask
  /// for what it had under way.
  void grow(std::uint32_t depth) {
    if (depth <= ring_.size()) return;
    ring_.reserve(depth);
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(next_), ring_.end());
    next_ = ring_.size();
    ring_.resize(depth);
  }
  void add(const Replay& replay) {
    if (ring_.empty()) return;
    ring_[next_] = replay;
    next_ = wrapped(next_ + 1, ring_.size());
  }
  /// The entry whose PSNs include `psn`, or nullptr.
  const Replay* find(LongPsn psn) const {
    for (const Replay& r : ring_) {
      if (psn >= r.first_psn && psn - r.first_psn < r.packets) return &r;
    }
    return nullptr;
  }
  std::span<const Replay> all() const { return ring_; }

 private:
  std::vector<Replay> ring_;
  std::size_t next_ = 0;
};

/// Answer that is still to be sent, or sent in part.
struct Response {
  AnswerKind kind = AnswerKind::kRead;
  bool is_duplicate = false;  ///< Answered before; or begun to be.
  bool begun = false;         ///< READ: the next packet is not a FIRST.
  Psn psn{};                  ///< The next packet's.
  Psn end{};                  ///< One past the last packet.
  std::uint64_t va = 0;       ///< READ: of the next byte.
  std::uint32_t left = 0;     ///< READ: bytes to send.
  std::uint32_t rkey = 0;
  std::uint64_t original = 0;
};

/// FIFO of bounded size: as many answers to new requests as the peer may have outstanding, and as many to duplicates,
/// which may queue up behind them. FLUSHes count apart: Soft-RoCE has any number of them outstanding.
class ResponseQueue {
 public:
  /// Changes how many of each may be in it. Those that are in it stay, even when they are more.
  void resize(std::uint32_t depth) {
    enlarge_to(std::max(ring_.size(), 2 * std::size_t{depth}));
    depth_ = depth;
  }
  void clear() { head_ = count_ = duplicates_ = flushes_ = 0; }
  bool empty() const { return count_ == 0; }
  bool full(bool of_duplicates) const {
    return (of_duplicates ? duplicates_ : count_ - duplicates_ - flushes_) >= depth_;
  }
  bool full_of_flushes() const { return flushes_ >= kMaxRdAtomic; }
  Response& front() {
    UROCE_ASSERT(!empty());
    return ring_[head_];
  }
  void push(const Response& response) {
    UROCE_ASSERT(is_counted_flush(response) ? !full_of_flushes() : !full(response.is_duplicate));
    if (count_ == ring_.size()) enlarge_to(2 * count_ + 1);
    ring_[wrapped(head_ + count_, ring_.size())] = response;
    ++count_;
    if (response.is_duplicate) ++duplicates_;
    if (is_counted_flush(response)) ++flushes_;
  }
  void pop() {
    UROCE_ASSERT(!empty());
    if (front().is_duplicate) --duplicates_;
    if (is_counted_flush(front())) --flushes_;
    head_ = wrapped(head_ + 1, ring_.size());
    --count_;
  }
  /// The queued response that ends at `end`, or nullptr.
  Response* find_end(Psn end) {
    for (std::size_t i = 0; i < count_; ++i) {
      Response& r = ring_[wrapped(head_ + i, ring_.size())];
      if (r.end == end) return &r;
    }
    return nullptr;
  }

 private:
  static bool is_counted_flush(const Response& r) { return r.kind == AnswerKind::kFlush && !r.is_duplicate; }
  void enlarge_to(std::size_t size) {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(head_), ring_.end());
    head_ = 0;
    ring_.resize(size);
  }

  std::vector<Response> ring_;
  std::size_t depth_ = 0, head_ = 0, count_ = 0;
  std::size_t duplicates_ = 0;  ///< Among `count_`.
  std::size_t flushes_ = 0;     ///< Among `count_`, without duplicates.
};

}  // namespace uroce::nic
