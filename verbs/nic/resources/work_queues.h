// SPDX-License-Identifier: Apache-2.0
// The send and receive queues: rings sized at creation, addressed by running index. The send queue IS the
// retransmission queue: a WQE knows its first PSN and its packet count, and packets are generated again from it.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "proto/base/check.h"
#include "verbs/nic/model/types.h"
#include "verbs/nic/resources/raw_array.h"
#include "verbs/nic/resources/wrapped.h"

namespace uroce::nic {

/// Two cache lines, and not parts of three: with thousands of QPs none is in a cache when it is looked at.
struct alignas(64) SendWqe {
  std::uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  bool signaled = false, solicited = false, fence = false, is_inline = false;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t compare_add = 0, swap = 0;
  MwBind bind;
  FlushTarget flush;
  std::uint32_t length = 0;  ///< Message bytes; 8 for atomics; of a FLUSH those of its range.
  std::uint32_t sge_count = 0;
  std::optional<WcStatus> injected_status{};  ///< It fails with this instead of being sent.
  Psn first_psn{};
  Psn ssn{};                  ///< Message sequence number of its first message: only a READ can be several.
  std::uint32_t packets = 1;  ///< PSNs it takes: request packets, or response packets of a READ.

  Psn end_psn() const { return first_psn + packets; }
  bool executed = false;  ///< For a local one: it is done, and waits for its turn to complete.

  /// Bind and local invalidate take no packets, nor a message sequence number.
  bool is_local() const { return op == SendOp::kBindMw || op == SendOp::kLocalInv; }
  bool is_read() const { return op == SendOp::kRead; }
  bool is_atomic() const { return op == SendOp::kCompareSwap || op == SendOp::kFetchAdd; }
  bool is_atomic_write() const { return op == SendOp::kAtomicWrite; }
  bool is_flush() const { return op == SendOp::kFlush; }
  /// Completed by a response of their own, never by a plain ACK. ATOMIC WRITE and FLUSH: a READ response without data.
  bool needs_response() const { return is_read() || is_atomic() || is_atomic_write() || is_flush(); }
  /// Takes a receive WQE: a SEND at its first packet, a WRITE with immediate at its last.
  bool takes_receive() const { return !needs_response() && !is_local() && op != SendOp::kWrite; }
  /// Payload bytes of packet `i`: of the request, or for a READ of the response.
  std::uint32_t packet_bytes(std::uint32_t i, std::uint32_t mtu) const {
    return is_atomic() || is_flush() ? 0 : std::min(mtu, length - i * mtu);
  }
};

class SendQueue {
 public:
  SendQueue(std::uint32_t capacity, std::uint32_t max_sge, std::uint32_t max_inline)
      : wqes_(capacity),
        sges_(std::size_t{capacity} * max_sge),
        inline_(std::size_t{capacity} * max_inline),
        max_sge_(max_sge),
        max_inline_(max_inline) {}

  /// For how many WRs. One that completes with a completion keeps its place until that is polled (IBTA Vol 1,
  /// 10.8.5.1 ?; mlx5): so a program that posts until there is no room can't overrun a CQ as large as its queues.
  std::uint64_t room() const { return wqes_.size() - (tail_ - head_) - unpolled_; }
  bool empty() const { return head_ == tail_; }
  std::uint64_t head() const { return head_; }  ///< Oldest WQE that has not completed.
  std::uint64_t tail() const { return tail_; }  ///< One past the newest.
  /// Of a WQE that has not completed, or the tail: where it is, and what else is kept for it, in arrays of the queue's
  /// capacity.
  std::size_t place(std::uint64_t index) const { return wrapped(head_place_ + (index - head_), wqes_.size()); }
  SendWqe& at(std::uint64_t index) { return wqes_[place(index)]; }
  const SendWqe& at(std::uint64_t index) const { return wqes_[place(index)]; }
  std::span<const Sge> sges(std::uint64_t index) const {
    return {sges_.data() + place(index) * max_sge_, at(index).sge_count};
  }
  Bytes inline_data(std::uint64_t index) const {
    return {inline_.data() + place(index) * max_inline_, at(index).length};
  }

  /// Takes the place at the tail for a WR whose limits have been checked; copies SGEs, or the data of an inline WR,
  /// `length` bytes. What depends on the transport service is the caller's to fill in.
  SendWqe& push(const SendWr& wr, std::uint64_t length, bool signal_all) {
    UROCE_ASSERT(room() > 0);
    const std::size_t tail = place(tail_);
    // In its place, and each field once: to clear it first, or to copy it there, takes a tenth of all that a WR takes.
    SendWqe& wqe = *new (&wqes_[tail]) SendWqe{.wr_id = wr.wr_id,
                                               .op = wr.op,
                                               .signaled = signal_all || (wr.flags & kSignaled) != 0,
                                               .solicited = (wr.flags & kSolicited) != 0,
                                               .fence = (wr.flags & kFence) != 0,
                                               .imm = wr.imm,
                                               .rkey = wr.rkey,
                                               .remote_addr = wr.remote_addr,
                                               .compare_add = wr.compare_add,
                                               .swap = wr.swap,
                                               .bind = wr.bind,
                                               .flush = wr.flush};
    wqe.length = wqe.is_atomic() ? 8 : wqe.is_flush() ? wr.flush.length : static_cast<std::uint32_t>(length);
    if (wr.flags & kInline) {
      std::uint8_t* to = inline_.data() + tail * max_inline_;
      for (const Sge& sge : wr.sges) {
        // Inline data is the caller's memory at the moment of the call; no key is involved (ibv_post_send(3)).
        if (sge.length != 0) std::memcpy(to, address(sge.addr), sge.length);
        to += sge.length;
      }
      wqe.is_inline = true;
    } else {
      std::copy(wr.sges.begin(), wr.sges.end(), sges_.data() + tail * max_sge_);
      wqe.sge_count = static_cast<std::uint32_t>(wr.sges.size());
    }
    ++tail_;
    return wqe;
  }
  /// The completion of the oldest WQE, which ends as `status` says; nothing if that is told by a later one.
  std::optional<Completion> completion_of_head(WcStatus status) {
    const SendWqe& wqe = at(head_);
    if (!wqe.signaled && status == WcStatus::kSuccess) return std::nullopt;
    return Completion{.wr_id = wqe.wr_id,
                      .status = status,
                      .opcode = opcode_of(wqe.op),
                      .byte_len = wqe.length,
                      .unpolled = &unpolled_};
  }
  void pop() {
    UROCE_ASSERT(!empty());
    ++head_;
    head_place_ = wrapped(head_place_ + 1, wqes_.size());
  }
  /// Forgets all. No completion of it is in its CQ any more.
  void clear() {
    UROCE_ASSERT(unpolled_ == 0);
    head_place_ = place(tail_);
    head_ = tail_;
  }

 private:
  /// What a completion of such a WR tells.
  static constexpr WcOpcode opcode_of(SendOp op) {
    switch (op) {
      case SendOp::kWrite:
      case SendOp::kWriteImm:
        return WcOpcode::kWrite;
      case SendOp::kRead:
        return WcOpcode::kRead;
      case SendOp::kCompareSwap:
        return WcOpcode::kCompareSwap;
      case SendOp::kFetchAdd:
        return WcOpcode::kFetchAdd;
      case SendOp::kBindMw:
        return WcOpcode::kBindMw;
      case SendOp::kLocalInv:
        return WcOpcode::kLocalInv;
      case SendOp::kFlush:
        return WcOpcode::kFlush;
      case SendOp::kAtomicWrite:
        return WcOpcode::kAtomicWrite;
      default:
        return WcOpcode::kSend;
    }
  }
  static const void* address(std::uint64_t addr) {
    const void* p = nullptr;
    static_assert(sizeof p == sizeof addr);
    std::memcpy(&p, &addr, sizeof p);
    return p;
  }
  RawArray<SendWqe> wqes_;
  RawArray<Sge> sges_;
  RawArray<std::uint8_t> inline_;
  std::uint32_t max_sge_, max_inline_;
  std::uint64_t head_ = 0, tail_ = 0;
  std::size_t head_place_ = 0;
  std::uint32_t unpolled_ = 0;  ///< Completions of this queue that are in its CQ.
};

struct RecvWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t length = 0;
  std::uint32_t sge_count = 0;
};

class RecvQueue {
 public:
  RecvQueue(std::uint32_t capacity, std::uint32_t max_sge)
      : wqes_(capacity), sges_(std::size_t{capacity} * max_sge), max_sge_(max_sge) {}

  bool full() const { return size_ == wqes_.size(); }
  /// Whether one more can be posted: as SendQueue::room(), for receives of which completions say unpolled().
  bool has_room() const { return size_ + unpolled_ < wqes_.size(); }
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(size_); }
  const RecvWqe& front() const {
    UROCE_ASSERT(!empty());
    return wqes_[head_];
  }
  std::span<const Sge> front_sges() const { return {sges_.data() + head_ * max_sge_, front().sge_count}; }
  void push(const RecvWr& wr, std::uint64_t length) {
    UROCE_ASSERT(!full());
    put(wrapped(head_ + size_, wqes_.size()), wr, length);
    ++size_;
  }
  void pop() {
    UROCE_ASSERT(!empty());
    head_ = wrapped(head_ + 1, wqes_.size());
    --size_;
  }
  /// Puts what was taken by pop() back to where it was.
  void push_front(const RecvWr& wr, std::uint64_t length) {
    UROCE_ASSERT(!full());
    head_ = wrapped(head_ + wqes_.size() - 1, wqes_.size());
    put(head_, wr, length);
    ++size_;
  }
  /// For the completion of a receive.
  std::uint32_t* unpolled() { return &unpolled_; }
  /// Forgets all. No completion of it is in its CQ any more.
  void clear() {
    UROCE_ASSERT(unpolled_ == 0);
    size_ = 0;
  }
  /// Changes the capacity, which must be enough for what is queued.
  void resize(std::uint32_t capacity) {
    UROCE_ASSERT(size() <= capacity);
    RecvQueue other(capacity, max_sge_);
    for (; !empty(); pop()) other.push({front().wr_id, front_sges()}, front().length);
    *this = std::move(other);
  }

 private:
  void put(std::size_t place, const RecvWr& wr, std::uint64_t length) {
    wqes_[place] = {wr.wr_id, length, static_cast<std::uint32_t>(wr.sges.size())};
    std::copy(wr.sges.begin(), wr.sges.end(), sges_.data() + place * max_sge_);
  }

  RawArray<RecvWqe> wqes_;
  RawArray<Sge> sges_;
  std::uint32_t max_sge_;
  std::size_t head_ = 0, size_ = 0;
  std::uint32_t unpolled_ = 0;  ///< Completions of this queue that are in its CQ.
};

}  // namespace uroce::nic
