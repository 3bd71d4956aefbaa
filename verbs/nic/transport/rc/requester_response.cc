// SPDX-License-Identifier: Apache-2.0
// What responses do to the send queue (IBTA Vol 1, 9.7.5 and 9.7.6.1; completions: 10.7.3, 11.6.2).
#include "proto/syndrome.h"
#include "verbs/nic/resources/sges.h"
#include "verbs/nic/transport/rc/requester.h"

namespace uroce::nic {

using proto::Kind;

namespace {

std::uint8_t syndrome_byte(const proto::PacketView& packet) {
  return packet.header<proto::Aeth>().get<proto::Aeth::SyndromeField>();
}

proto::Syndrome syndrome_of(const proto::PacketView& packet) { return proto::decode_syndrome(syndrome_byte(packet)); }

/// Whether the AETH, which not every response has, refuses nothing. With data it never does.
bool is_positive(const proto::PacketView& packet) {
  return !packet.has<proto::Aeth>() || std::holds_alternative<proto::syndrome::Ack>(syndrome_of(packet));
}

}  // namespace

bool Requester::on_response(const proto::PacketView& packet, Instant now) {
  const Psn psn = packet.psn();
  // Ghost and duplicate responses: outside of what is outstanding (9.7.6.1.?). `max_`, not `next_`: after a rewind the
  // answers to the first transmission still count.
  if (psn - una_ < 0 || psn - max_ >= 0 || sq_.empty()) {
    if (psn == una_ - 1 && packet.op().kind == Kind::kAcknowledge) {
      take_credits(packet);  // Said again, to tell of them; or because the peer still reads what we have sent twice:
      if (is_probing_ && timers_.running(Timer::kAck)) start_ack_timer(now);
    }
    c_.note<TraceKind::kGhostAck>(packet.bth().get<proto::Bth::Opcode>(), psn.value());
    return false;
  }
  switch (packet.op().kind) {
    case Kind::kAcknowledge:
      on_acknowledge(packet, now);
      break;
    case Kind::kReadResponse:
      on_read_response(packet, now);
      break;
    case Kind::kAtomicAcknowledge:
      on_atomic_acknowledge(packet, now);
      break;
    default:
      return false;
  }
  take_credits(packet);
  if (local_error_ && cursor_ == sq_.head() && !c_.send_failed) fail_head(*local_error_);
  return true;
}

void Requester::take_credits(const proto::PacketView& packet) {
  if (!packet.has<proto::Aeth>()) return;
  const proto::Syndrome syndrome = syndrome_of(packet);
  const auto* ack = std::get_if<proto::syndrome::Ack>(&syndrome);
  if (ack != nullptr) {
    credits_.on_credits(Ssn{packet.header<proto::Aeth>().get<proto::Aeth::Msn>()}, ack->credit_code);
  }
}

void Requester::on_acknowledge(const proto::PacketView& packet, Instant now) {
  const Psn psn = packet.psn();
  const proto::Syndrome syndrome = syndrome_of(packet);
  if (std::holds_alternative<proto::syndrome::Reserved>(syndrome)) {
    return c_.note<TraceKind::kDropSyndrome>(syndrome_byte(packet), psn.value());
  }

  const bool positive = std::holds_alternative<proto::syndrome::Ack>(syndrome);
  const Psn acknowledged = positive ? psn + 1 : psn;  // A NAK acknowledges what is before it.
  acknowledge_before(acknowledged, now);
  if (una_ != acknowledged) return retry_once_for_missing_response();
  if (positive) return;
  if (const auto* rnr = std::get_if<proto::syndrome::Rnr>(&syndrome)) return on_rnr(rnr->timer, now);
  on_nak(std::get<proto::syndrome::Nak>(syndrome).code);
}

/// What we have gone back for and not sent again yet cannot be refused anew: the network has doubled the NAK, or it is
/// one of several for the same transmission.
bool Requester::is_refused_already() const { return next_ == una_; }

void Requester::on_rnr(std::uint8_t timer, Instant now) {
  if (timers_.running(Timer::kRnr)) return;  // The same RNR NAK again: nothing has been sent since the first one.
  c_.note<TraceKind::kRnrNakIn>(una_.value(), timer);
  constexpr std::uint8_t kForEver = 7;
  if (c_.attr.rnr_retry != kForEver && !is_refused_already()) {
    if (rnr_left_ == 0) {
      c_.note<TraceKind::kRnrRetriesExceeded>(una_.value());
      fail_head(WcStatus::kRnrRetryExcErr);
      return;
    }
    --rnr_left_;
  }
  rewind();
  timers_.set(Timer::kRnr, now + proto::rnr_delay(timer));
}

void Requester::on_nak(proto::NakCode code) {
  if (code != proto::NakCode::kPsnSequenceError)
    c_.note<TraceKind::kNakIn>(static_cast<std::uint64_t>(code), una_.value());
  switch (code) {
    case proto::NakCode::kPsnSequenceError:
      return retry_once_for_sequence_nak();
    case proto::NakCode::kInvalidRequest:
      return fail_head(WcStatus::kRemInvReqErr);
    case proto::NakCode::kRemoteAccessError:
      return fail_head(WcStatus::kRemAccessErr);
    case proto::NakCode::kRemoteOperationalError:
      return fail_head(WcStatus::kRemOpErr);
    case proto::NakCode::kInvalidRdRequest:
      return fail_head(WcStatus::kBadRespErr);
  }
}

void Requester::on_read_response(const proto::PacketView& packet, Instant now) {
  acknowledge_before(packet.psn(), now);  // The responder answers in order: everything before has been executed.
  if (una_ != packet.psn()) return retry_once_for_missing_response();
  const std::uint64_t head = sq_.head();
  const SendWqe& wqe = sq_.at(head);
  const std::uint32_t index = psn_distance(una_, wqe.first_psn);
  const bool is_due = wqe.is_read() || wqe.is_atomic_write() || wqe.is_flush();
  const bool ends = index + 1 == piece_end(wqe, index);
  const std::uint32_t expected = wqe.is_read() ? wqe.packet_bytes(index, c_.mtu()) : 0;
  if (!is_due || !is_positive(packet) || packet.payload().size() != expected || packet.op().ends() != ends ||
      !is_in_place(packet, index)) {
    return fail_head(WcStatus::kBadRespErr);
  }
  if (expected != 0 &&
      !scatter(c_.env.mrs, c_.init.pd, sq_.sges(head), std::uint64_t{index} * c_.mtu(), packet.payload())) {
    c_.note_refused(c_.init.pd, sq_.sges(head), kLocalWrite);
    return fail_head(WcStatus::kLocProtErr);
  }
  c_.note_received(expected);
  advance_una(1);
  note_progress(now);
}

/// FIRST and ONLY answer a request, and stand where one began. What was asked for again may go on with MIDDLE, as
/// Soft-RoCE does, or because it is what was asked for before.
bool Requester::is_in_place(const proto::PacketView& packet, std::uint32_t index) const {
  const bool begins_piece = index % piece_packets() == 0;
  return packet.op().starts() ? begins_piece || una_ == resumed_ : !begins_piece;
}

void Requester::on_atomic_acknowledge(const proto::PacketView& packet, Instant now) {
  acknowledge_before(packet.psn(), now);
  if (una_ != packet.psn()) return retry_once_for_missing_response();
  const std::uint64_t head = sq_.head();
  if (!sq_.at(head).is_atomic() || !is_positive(packet)) return fail_head(WcStatus::kBadRespErr);
  const std::uint64_t original = packet.header<proto::AtomicAckEth>().get<proto::AtomicAckEth::Original>();
  std::array<std::uint8_t, 8> bytes;
  std::memcpy(bytes.data(), &original, bytes.size());  // In host order, as every provider returns it.
  if (!scatter(c_.env.mrs, c_.init.pd, sq_.sges(head), 0, bytes)) {
    c_.note_refused(c_.init.pd, sq_.sges(head), kLocalWrite);
    return fail_head(WcStatus::kLocProtErr);
  }
  advance_una(1);
  note_progress(now);
}

/// Completes what a response for `psn` proves done: all before it, up to the first READ or atomic without its answer.
void Requester::acknowledge_before(Psn psn, Instant now) {
  const Psn before = una_;
  while (una_ != psn && !sq_.empty()) {
    const SendWqe& wqe = sq_.at(sq_.head());
    if (wqe.needs_response()) break;
    const std::uint32_t left = wqe.packets - psn_distance(una_, wqe.first_psn);
    advance_una(std::min(left, psn_distance(psn, una_)));
  }
  if (una_ != before) note_progress(now);
}

/// Moves `una_` over `packets` packets of the WQE at the head; completes it at its end.
void Requester::advance_una(std::uint32_t packets) {
  const SendWqe& wqe = sq_.at(sq_.head());
  for (std::uint32_t i = 0; i < packets; ++i, ++una_) {
    if (una_ - counted_from_ >= 0 && una_ - next_ < 0) {
      c_.window->acknowledged(PeerWindow::cost(wqe.packet_bytes(psn_distance(una_, wqe.first_psn), c_.mtu())));
    }
  }
  if (measured_ && una_ - measured_->psn >= 0) {
    c_.window->on_round_trip(c_.env.trace.now - measured_->sent, c_.env.trace.now);
    measured_.reset();
  }
  while (!reads_.empty() && reads_.front() - una_ <= 0) reads_.erase(reads_.begin());
  const bool done = una_ == wqe.end_psn();
  if (una_ - next_ > 0) {  // Acknowledged by an answer to an earlier transmission: no need to send it again.
    next_ = una_;
    cursor_ = sq_.head() + (done ? 1 : 0);
    local_error_.reset();  // It was about a packet that need not be sent again.
  }
  if (counted_from_ - una_ < 0) counted_from_ = una_;
  if (done) succeed_head();
}

void Requester::complete_head(WcStatus status) {
  const SendWqe& wqe = sq_.at(sq_.head());
  if (const auto completion = sq_.completion_of_head(status)) c_.complete(*c_.init.send_cq, *completion);
  const bool is_send = wqe.op == SendOp::kSend || wqe.op == SendOp::kSendImm || wqe.op == SendOp::kSendInv;
  if (is_send && status == WcStatus::kSuccess) c_.note<TraceKind::kSent>(wqe.length);
  if (!wqe.is_local()) credits_.on_completed(wqe.ssn + (wqe.is_read() ? pieces(wqe.packets) - 1 : 0));
  sq_.pop();
  if (cursor_ < sq_.head()) cursor_ = sq_.head();
}

/// Completes the head, and the binds and invalidations behind it that have been executed.
void Requester::succeed_head() {
  do {
    complete_head(WcStatus::kSuccess);
  } while (!sq_.empty() && sq_.at(sq_.head()).executed);
}

void Requester::fail_head(WcStatus status) {
  if (c_.send_failed) return;
  release_window();
  c_.send_failed = true;
  if (sq_.at(sq_.head()).injected_status) {
    c_.note<TraceKind::kInjectedError>(static_cast<std::uint64_t>(status), una_.value());
  }
  c_.note<TraceKind::kSendFailed>(static_cast<std::uint64_t>(status), una_.value());
  complete_head(status);
}

}  // namespace uroce::nic
