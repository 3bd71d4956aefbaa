// SPDX-License-Identifier: Apache-2.0
// Going back: timeouts, NAKs, implied NAKs and what they cost (IBTA Vol 1, 9.7.5 and 9.7.6).
#include "verbs/nic/transport/rc/requester.h"

namespace uroce::nic {

void Requester::on_timeout(Instant now) {
  timers_.take_expired(Timer::kRnr, now);  // Nothing to do but to be allowed to send again.
  if (timers_.take_expired(Timer::kCredit, now)) {
    c_.note<TraceKind::kCreditProbe>(next_.value());
    try_without_credit_ = true;
  }
  if (timers_.take_expired(Timer::kStall, now)) {
    c_.note<TraceKind::kStalled>(una_.value());
    release_window();
    stalled_ = true;
  }
  const Instant due = timers_.at(Timer::kAck);
  if (timers_.take_expired(Timer::kAck, now) && !waits_again(due, now)) {
    c_.note<TraceKind::kAckTimeout>(una_.value(), retry_left_);
    c_.window->on_silence(now - ack_timeout().value_or(Duration{}));
    went_back_ = false;
    retry();
    is_probing_ = true;
  }
}

/// Whether the ACK timer, which was due, starts once more: noticed so late, it tells nothing of the peer. This process
/// was stopped or had no processor. Answers may be here unread, what it sent may have left only now, and a peer on the
/// same host may have been held up for as long.
bool Requester::waits_again(Instant due, Instant now) {
  const Duration late = now - due;
  if (late < kHeldUp || late_timeouts_ == kLateTimeouts) return false;
  ++late_timeouts_;
  const Duration most = ack_timeout().value_or(late);
  timers_.set(Timer::kAck, now + std::clamp(late, std::min(c_.env.config.ack_timeout_floor, most), most));
  return true;
}

/// Sends again from the oldest unacknowledged packet, if the retry count still allows it.
void Requester::retry() {
  if (retry_left_ == 0) {
    c_.note<TraceKind::kRetriesExceeded>(una_.value());
    fail_head(WcStatus::kRetryExcErr);
    return;
  }
  --retry_left_;
  rewind();
}

/// Implied NAK (9.7.5.1.2?): a response arrived, but an earlier READ or atomic has not been answered. Every further
/// response behind the gap says the same again.
void Requester::retry_once_for_missing_response() {
  if (went_back_) return;
  c_.note<TraceKind::kImpliedNak>(una_.value());
  went_back_ = true;
  c_.window->on_loss(c_.env.trace.now);
  retry();
}

/// A responder sends one NAK for a gap (9.7.5.1.4?). Another one is a copy of it, or a stranger's packet drew it:
/// neither tells of a further loss.
void Requester::retry_once_for_sequence_nak() {
  // Packets that followed one refused with RNR arrive out of sequence.
  if (went_back_ || timers_.running(Timer::kRnr) || is_refused_already()) return;
  c_.note<TraceKind::kSequenceNakIn>(una_.value());
  went_back_ = true;
  c_.window->on_loss(c_.env.trace.now);
  retry();
}

void Requester::rewind() {
  release_window();
  next_ = counted_from_ = ack_due_ = una_;
  cursor_ = sq_.head();
  reads_.clear();
  since_ack_request_ = 0;
  local_error_.reset();  // Found again when the cursor comes back to it.
  stalled_ = false;
  measured_.reset();  // An answer could be to either transmission.
  timers_.stop(Timer::kAck);
  timers_.stop(Timer::kStall);
}

/// Some packet was acknowledged: retry counts start afresh and the timer covers what is now the oldest packet.
void Requester::note_progress(Instant now) {
  reload_retry_counts();
  went_back_ = stalled_ = is_probing_ = false;
  timers_.stop(Timer::kRnr);
  timers_.stop(Timer::kAck);
  timers_.stop(Timer::kStall);
  if (una_ == next_) return;
  start_ack_timer(now);
  timers_.set(Timer::kStall, now + c_.window->patience());
}

/// The timer runs while an ACK that was asked for is outstanding. A message whose rest waits for the window has
/// not asked yet: without an ACK nothing is wrong then, and no retry is used up.
void Requester::start_ack_timer(Instant now) {
  late_timeouts_ = 0;
  if (ack_due_ - una_ <= 0) return;
  if (const auto timeout = ack_timeout()) timers_.set(Timer::kAck, now + *timeout);
}

std::optional<Duration> Requester::ack_timeout() const {
  const auto timeout = proto::local_ack_timeout(c_.attr.timeout);
  if (!timeout) return std::nullopt;
  return std::max(*timeout, c_.env.config.ack_timeout_floor);
}

/// The WQE at the cursor cannot be executed. WQEs before it still complete normally, so the error waits for its turn.
void Requester::fail_locally(WcStatus status) {
  local_error_ = status;
  if (cursor_ == sq_.head()) fail_head(status);
}

/// Gives back to the window what our packets in flight took.
void Requester::release_window() {
  if (counted_from_ == next_) return;
  Psn psn = una_;
  for (std::uint64_t i = sq_.head(); i <= cursor_ && i < sq_.tail() && psn != next_; ++i) {
    const SendWqe& wqe = sq_.at(i);
    if (counted_from_ - psn > 0) {  // Given back before.
      psn = psn + std::min(psn_distance(counted_from_, psn), wqe.packets - psn_distance(psn, wqe.first_psn));
    }
    for (; psn != wqe.end_psn() && psn != next_; ++psn) {
      c_.window->give_back(PeerWindow::cost(wqe.packet_bytes(psn_distance(psn, wqe.first_psn), c_.mtu())));
    }
  }
  counted_from_ = next_;
}

}  // namespace uroce::nic
