// What the responder keeps of READs and atomics: answers still to be sent, and what it takes to answer duplicates.
#pragma once

#include <vector>

#include "proto/base/check.h"
#include "verbs/nic/types.h"

namespace uroce::nic {

/// One READ or atomic that was executed.
struct Replay {
  bool is_atomic = false;
  Psn first_psn;
  std::uint32_t packets = 0;  ///< 0: empty slot.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t original = 0;  ///< Atomics: the answer.
};

/// The last max_dest_rd_atomic of them.
class ReplayRing {
 public:
  void resize(std::uint32_t depth) { slots_.assign(depth, {}), next_ = 0; }
  void add(const Replay& replay) {
    if (slots_.empty()) return;
    slots_[next_] = replay;
    next_ = (next_ + 1) % slots_.size();
  }
  /// The entry whose PSNs include `psn`, or nullptr.
  const Replay* find(Psn psn) const {
    for (const Replay& r : slots_) {
      if (r.packets != 0 && psn - r.first_psn >= 0 && psn - (r.first_psn + r.packets) < 0) return &r;
    }
    return nullptr;
  }
  std::span<const Replay> all() const { return slots_; }

 private:
  std::vector<Replay> slots_;
  std::size_t next_ = 0;
};

/// Answer to a READ or atomic that is still to be sent, or sent in part.
struct Response {
  bool is_atomic = false;
  bool is_duplicate = false;  ///< Answered before; or begun to be.
  bool begun = false;         ///< READ: the next packet is not a FIRST.
  Psn psn{};                  ///< Of the next packet.
  Psn end{};                  ///< One past the last packet.
  std::uint64_t va = 0;    ///< READ: of the next byte.
  std::uint32_t left = 0;  ///< READ: bytes to send.
  std::uint32_t rkey = 0;
  std::uint64_t original = 0;
};

/// FIFO of bounded size: as many answers to new requests as the peer may have outstanding, and as many to duplicates,
/// which may queue up behind them.
class ResponseQueue {
 public:
  void resize(std::uint32_t depth) { slots_.assign(2 * std::size_t{depth}, {}), clear(); }
  void clear() { head_ = count_ = duplicates_ = 0; }
  bool empty() const { return count_ == 0; }
  bool full(bool of_duplicates) const {
    return (of_duplicates ? duplicates_ : count_ - duplicates_) == slots_.size() / 2;
  }
  Response& front() {
    UROCE_ASSERT(!empty());
    return slots_[head_];
  }
  void push(const Response& response) {
    UROCE_ASSERT(!full(response.is_duplicate));
    slots_[(head_ + count_) % slots_.size()] = response;
    ++count_;
    if (response.is_duplicate) ++duplicates_;
  }
  void pop() {
    UROCE_ASSERT(!empty());
    if (front().is_duplicate) --duplicates_;
    head_ = (head_ + 1) % slots_.size();
    --count_;
  }
  /// The queued response that ends at `end`, or nullptr.
  Response* find_end(Psn end) {
    for (std::size_t i = 0; i < count_; ++i) {
      Response& r = slots_[(head_ + i) % slots_.size()];
      if (r.end == end) return &r;
    }
    return nullptr;
  }

 private:
  std::vector<Response> slots_;
  std::size_t head_ = 0, count_ = 0, duplicates_ = 0;
};

}  // namespace uroce::nic
