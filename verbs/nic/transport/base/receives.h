// SPDX-License-Identifier: Apache-2.0
// Where a responder takes its receives from: the QP's own queue, or the SRQ that it is attached to. A message holds one
// receive from its first packet (SEND) or its last (WRITE with immediate) until it completes. What a UC message
// held that came to nothing, the next one has.
#pragma once

#include <optional>
#include <utility>

#include "verbs/nic/model/qp_inside.h"
#include "verbs/nic/resources/sges.h"
#include "verbs/nic/resources/srq.h"
#include "verbs/nic/transport/base/qp_context.h"
#include "verbs/nic/transport/base/receive_completion.h"

namespace uroce::nic {

class Receives {
 public:
  explicit Receives(QpContext& context)
      : c_(context),
        own_(srq() ? 0 : context.init.max_recv_wr, srq() ? 0 : context.init.max_recv_sge),
        taken_sges_(srq() ? srq()->max_sge() : 0) {}

  /// EINVAL: too many SGEs, or the QP has an SRQ; ENOMEM: queue full.
  Errno post(const RecvWr& wr) {
    if (srq() || wr.sges.size() > c_.init.max_recv_sge) return EINVAL;
    if (c_.init.max_recv_wr == 0 || !own_.has_room()) return ENOMEM;
    own_.push(wr, total_length(wr.sges));
    return 0;
  }
  /// True when a receive is held or can be.
  bool available() const { return held_ || (srq() ? !srq()->empty() : !own_.empty()); }
  /// The same for the request `psn`, unless a fault has it refused.
  bool available_for(Psn psn) const {
    if (!available()) return false;
    const auto& refuse_receive = c_.env.config.faults.refuse_receive;
    if (!refuse_receive || !refuse_receive(c_.qpn, psn)) return true;
    c_.note<TraceKind::kInjectedRnr>(psn.value());
    return false;
  }
  bool held() const { return held_; }
  bool shared() const { return srq() != nullptr; }
  /// Bytes that fit into the receive that is held or that hold() would take. There must be one.
  std::uint64_t next_length() const {
    return held_ ? front().length : srq() ? srq()->front_length() : own_.front().length;
  }
  /// Receives of the QP's own queue, the one that is held included.
  std::uint32_t size() const { return own_.size(); }
  void describe(QpInside& inside) const {
    inside.has_srq = shared();
    inside.receives = shared() ? srq()->size() : size();
  }
  /// False when receives are shared, so that nothing can be promised to the peer (IBTA Vol 1, 9.7.7.2).
  bool counts_credits() const { return !srq(); }

  /// Holds the next receive, unless one is held already. There must be one.
  void hold() {
    UROCE_ASSERT(available());
    if (!held_ && srq() && srq()->take(taken_, taken_sges_)) c_.env.raise_limit_reached(*srq());
    held_ = true;
  }
  // The receive that is held.
  const RecvWqe& front() const {
    UROCE_ASSERT(held_);
    return srq() ? taken_ : own_.front();
  }
  std::span<const Sge> sges() const {
    return srq() ? std::span<const Sge>(taken_sges_).first(front().sge_count) : own_.front_sges();
  }
  /// The PD that its L_Keys must be of.
  const Pd* pd() const { return srq() ? srq()->pd() : c_.init.pd; }

  /// Completes the receive that is held; wr_id is filled in here.
  void complete(Completion completion) {
    completion.wr_id = front().wr_id;
    if (!srq()) {
      own_.pop();
      completion.unpolled = own_.unpolled();
    }
    held_ = false;
    if (completion.status == WcStatus::kSuccess) c_.note<TraceKind::kReceived>(completion.byte_len);
    c_.complete(*c_.init.recv_cq, completion);
  }
  void fail(WcStatus status) { complete(failed_receive(status)); }
  /// The receive that is held has failed; it completes when the QP is in ERR, with the first status that this is told.
  void fail_at_flush(WcStatus status) {
    UROCE_ASSERT(held_);
    if (!failure_) failure_ = status;
  }
  /// Completes what the QP holds and what is posted to it with WR_FLUSH_ERR. What is in the SRQ stays there.
  void flush() {
    if (held_) fail(std::exchange(failure_, std::nullopt).value_or(WcStatus::kWrFlushErr));
    while (!own_.empty()) {
      held_ = true;
      fail(WcStatus::kWrFlushErr);
    }
  }
  /// Drops it without completions. A shared receive that is held goes back to where it came from.
  void clear() {
    if (held_ && srq()) srq()->put_back(front(), sges());
    held_ = false;
    failure_.reset();
    own_.clear();
  }

 private:
  Srq* srq() const { return c_.init.srq; }

  QpContext& c_;
  RecvQueue own_;
  bool held_ = false;
  std::optional<WcStatus> failure_;  ///< Of the receive that is held.
  RecvWqe taken_;                    ///< With an SRQ: the receive that is held.
  std::vector<Sge> taken_sges_;
};

}  // namespace uroce::nic
