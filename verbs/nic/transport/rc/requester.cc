// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/rc/requester.h"

#include <cerrno>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/resources/sges.h"

namespace uroce::nic {
namespace {

constexpr bool is_supported(SendOp op) {
  switch (op) {
    case SendOp::kWrite:
    case SendOp::kWriteImm:
    case SendOp::kSend:
    case SendOp::kSendImm:
    case SendOp::kSendInv:
    case SendOp::kRead:
    case SendOp::kCompareSwap:
    case SendOp::kFetchAdd:
    case SendOp::kLocalInv:
    case SendOp::kBindMw:
    case SendOp::kFlush:
    case SendOp::kAtomicWrite:
      return true;
  }
  return false;
}

constexpr bool is_known(const FlushTarget& flush) {
  return flush.placement != 0 && (flush.placement & ~(proto::kGlobalVisibility | proto::kPersistence)) == 0 &&
         flush.selectivity <= proto::kFlushRegion && flush.length <= kMaxMessageBytes;
}

/// The value of an ATOMIC WRITE can always be inline.
constexpr std::uint32_t kAtomicWriteBytes = 8;

}  // namespace

Requester::Requester(QpContext& context, TimerTable& timers)
    : c_(context),
      timers_(timers),
      sq_(context.init.max_send_wr, context.init.max_send_sge, std::max(context.init.max_inline, kAtomicWriteBytes)) {
  reads_.reserve(kMaxRdAtomic);
}

void Requester::start() {
  una_ = next_ = max_ = post_ = counted_from_ = resumed_ = ack_due_ = c_.attr.sq_psn;
  post_ssn_ = Ssn{1};
  credits_.start();
  cursor_ = sq_.head();
  c_.send_failed = false;
  reload_retry_counts();
}

void Requester::reload_retry_counts() {
  retry_left_ = c_.attr.retry_cnt;
  rnr_left_ = c_.attr.rnr_retry;
}

/// The timer starts when the QP is asked for packets next, which it is after every change: that is when time is known.
void Requester::reload_timeout() {
  timers_.stop(Timer::kAck);
  timeout_changed_ = true;
}

Errno Requester::check(const SendWr& wr, std::uint32_t ahead) const {
  if (!is_supported(wr.op) || wr.sges.size() > c_.init.max_send_sge) return EINVAL;
  const std::uint64_t length = total_length(wr.sges);
  const bool is_atomic = wr.op == SendOp::kCompareSwap || wr.op == SendOp::kFetchAdd;
  if (length > kMaxMessageBytes) return EINVAL;
  if (is_atomic && (length < 8 || wr.remote_addr % 8 != 0)) return EINVAL;
  if (wr.op == SendOp::kAtomicWrite && (length != kAtomicWriteBytes || wr.remote_addr % 8 != 0)) return EINVAL;
  if (wr.op == SendOp::kFlush && (!wr.sges.empty() || !is_known(wr.flush))) return EINVAL;
  if ((wr.flags & kInline) && wr.op != SendOp::kAtomicWrite) {
    if (wr.op == SendOp::kRead || is_atomic || length > c_.init.max_inline) return EINVAL;
  }
  return sq_.room() > ahead ? 0 : ENOMEM;
}

Errno Requester::post(const SendWr& wr) {
  if (const Errno error = check(wr, 0)) return error;
  SendWqe& wqe = sq_.push(wr, total_length(wr.sges), c_.init.sq_sig_all);
  wqe.injected_status = c_.injected_failure(++posted_);
  wqe.first_psn = post_;
  const bool is_single = wqe.needs_response() && !wqe.is_read();
  wqe.packets = wqe.is_local() ? 0 : is_single ? 1 : c_.packets_for(wqe.length);
  wqe.ssn = post_ssn_;
  post_ = wqe.end_psn();
  post_ssn_ = post_ssn_ + (wqe.is_read() ? pieces(wqe.packets) : wqe.is_local() ? 0 : 1);
  return 0;
}

void Requester::flush() {
  release_window();
  timers_.stop_all();
  reads_.clear();
  local_error_.reset();
  while (!sq_.empty()) complete_head(WcStatus::kWrFlushErr);
}

void Requester::clear() {
  release_window();
  timers_.stop_all();
  reads_.clear();
  local_error_.reset();
  sq_.clear();
  cursor_ = sq_.head();
  c_.send_failed = false;
  went_back_ = stalled_ = is_probing_ = false;
  measured_.reset();
  try_without_credit_ = false;
}

void Requester::describe(QpInside& inside) const {
  inside.una = una_;
  inside.next = next_;
  inside.max = max_;
  inside.queued_sends = static_cast<std::uint32_t>(sq_.tail() - sq_.head());
  const bool is_inside = cursor_ < sq_.tail() && next_ != sq_.at(cursor_).first_psn;
  inside.begun_sends = static_cast<std::uint32_t>(cursor_ - sq_.head()) + (is_inside ? 1 : 0);
  inside.retries_left = retry_left_;
  inside.rnr_retries_left = rnr_left_;
  inside.waits_for_window = waits_for_window_;
  inside.probes = is_probing_;
  inside.stalled = stalled_;
}

bool Requester::drained() const {
  if (una_ != max_) return false;
  return cursor_ == sq_.tail() || next_ == sq_.at(cursor_).first_psn;
}

}  // namespace uroce::nic
