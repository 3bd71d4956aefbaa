// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/rc/responder.h"

#include "verbs/nic/model/limits.h"

namespace uroce::nic {

using proto::NakCode;
using proto::Opcode;

Responder::Responder(QpContext& context) : c_(context), receives_(context) {}

Errno Responder::post(const RecvWr& wr) {
  if (const Errno error = receives_.post(wr)) return error;
  // A requester that has used up its credits waits for news; every other one gets them with its next ACK.
  if (announced_ == msn_) schedule(expected() - 1, proto::syndrome::Ack{});
  return 0;
}

void Responder::start() {
  expected_ = (LongPsn{1} << 24) | c_.attr.rq_psn.value();  // With room for what the peer takes for duplicates.
  msn_ = {};
  announced_.reset();
  nak_sent_ = false;
  message_ = {};
  pending_.reset();
  c_.receive_failed.reset();
  replay_.clear();
  flushes_.clear();
  responses_.clear();
  set_depth(c_.attr.max_dest_rd_atomic);
}

/// Peers round up how many READs and atomics they have outstanding to a power of two (rxe does), so that many are
/// taken, unless the letter is asked for.
void Responder::set_depth(std::uint32_t max_dest_rd_atomic) {
  const bool exact = c_.env.config.strict || max_dest_rd_atomic == 0;
  const std::uint32_t depth = exact ? max_dest_rd_atomic : std::bit_ceil(max_dest_rd_atomic);
  replay_.grow(depth);
  responses_.resize(depth);
}

void Responder::flush() {
  if (is_answering()) drop_output();
  message_ = {};
  announced_.reset();
  receives_.flush();
}

void Responder::drop_output() {
  responses_.clear();
  pending_.reset();
}

void Responder::clear() {
  drop_output();
  receives_.clear();
  message_ = {};
  announced_.reset();
  c_.receive_failed.reset();
}

bool Responder::on_request(const Arrival& arrival) {
  const proto::PacketView& packet = arrival.packet;
  // The packet that a NAK asks for has come before the NAK was sent.
  const bool in_time = packet.psn() == expected() && take_back_nak();
  Verdict verdict;
  for (const Check& check : checks()) {
    verdict = (this->*check.run)(packet);
    if (verdict.kind == Verdict::Kind::kContinue) continue;
    if (verdict.kind != Verdict::Kind::kDrop) {
      c_.note<TraceKind::kRefused>(static_cast<std::uint64_t>(&check - checks().data()), packet.psn().value());
    }
    break;
  }
  if (verdict.kind == Verdict::Kind::kContinue) verdict = execute(packet);
  switch (verdict.kind) {
    case Verdict::Kind::kContinue:
      break;
    case Verdict::Kind::kDrop:
      return false;
    case Verdict::Kind::kRnr:
      c_.note<TraceKind::kRnrNak>(expected().value(), c_.attr.min_rnr_timer);
      schedule(expected(), proto::syndrome::Rnr{c_.attr.min_rnr_timer});
      if (!in_time || refused_ - expected() < 0) refused_ = expected();
      nak_sent_ = true;
      return false;
    case Verdict::Kind::kNak:
      refuse(verdict.code);
      return false;
  }
  c_.note_received(packet.payload().size());
  const proto::Kind kind = packet.op().kind;
  const bool has_own_answer = kind != proto::Kind::kSend && kind != proto::Kind::kWrite;
  if (in_time && refused_ - expected() >= 0) {  // What came behind it was refused all the same.
    schedule(expected(), proto::syndrome::Nak{NakCode::kPsnSequenceError});
    nak_sent_ = true;
  } else if (!has_own_answer && (in_time || packet.bth().get<proto::Bth::AckReq>())) {
    schedule(expected() - 1, proto::syndrome::Ack{});
  }
  return true;
}

/// A fatal NAK (IBTA Vol 1, 9.9.3): the receive in use reports it, the QP goes to ERR.
void Responder::refuse(NakCode code) {
  schedule(expected(), proto::syndrome::Nak{code});
  if (receives_.held() && code == NakCode::kInvalidRequest) receives_.fail_at_flush(WcStatus::kRemInvReqErr);
  fail_with(code, expected());
}

/// The event that the program gets for a fatal NAK.
void Responder::fail_with(NakCode code, Psn psn) {
  c_.note<TraceKind::kNak>(static_cast<std::uint64_t>(code), psn.value());
  c_.receive_failed = code == NakCode::kInvalidRequest      ? Event::Kind::kQpReqErr
                      : code == NakCode::kRemoteAccessError ? Event::Kind::kQpAccessErr
                                                            : Event::Kind::kQpFatal;
}

/// Makes an ACK or NAK the pending one, unless a pending NAK or a later ACK says more.
void Responder::schedule(Psn psn, proto::Syndrome syndrome) {
  if (pending_) {
    const bool pending_is_ack = std::holds_alternative<proto::syndrome::Ack>(pending_->syndrome);
    const bool is_ack = std::holds_alternative<proto::syndrome::Ack>(syndrome);
    if (is_ack && (!pending_is_ack || psn - pending_->psn < 0)) return;
  }
  pending_ = Pending{psn, syndrome};
}

/// Forgets a NAK or RNR NAK that is still to be sent; false when there is none.
bool Responder::take_back_nak() {
  if (!pending_ || std::holds_alternative<proto::syndrome::Ack>(pending_->syndrome)) return false;
  pending_.reset();
  return true;
}

/// Queues an answer. It acknowledges everything before it, so a pending ACK is not needed.
void Responder::enqueue(const Response& response) {
  if (Response* queued = responses_.find_end(response.end)) {
    // A duplicate of a request whose answer is still being sent: start that one again.
    const bool was_duplicate = queued->is_duplicate;
    *queued = response;
    queued->is_duplicate = was_duplicate;
    return;
  }
  if (response.is_duplicate && responses_.full(true)) return;  // The requester will ask again.
  responses_.push(response);
  if (pending_ && std::holds_alternative<proto::syndrome::Ack>(pending_->syndrome) &&
      pending_->psn - response.psn < 0) {
    pending_.reset();
  }
}

TxStatus Responder::poll_transmit(MutBytes frame, proto::Transmit& out) {
  while (!responses_.empty()) {
    Response& response = responses_.front();
    if (response.kind == AnswerKind::kAtomic) {
      build_atomic_response(frame, out);
      responses_.pop();
      return TxStatus::kSent;
    }
    const Verdict verdict = build_read_response(frame, out);
    if (verdict.kind == Verdict::Kind::kContinue) return TxStatus::kSent;
    if (response.is_duplicate) {
      // The requester may have had this answer for long, and so have been free to take back what it is made of.
      responses_.pop();
      continue;
    }
    // The region, or its memory, is gone since the request was accepted: all that is left is to say so.
    const Psn psn = response.psn;
    drop_output();
    pending_ = Pending{psn, proto::syndrome::Nak{verdict.code}};
    fail_with(verdict.code, psn);
  }
  if (!pending_) return TxStatus::kIdle;
  proto::PacketBuilder builder = c_.begin(frame, Opcode::kRcAcknowledge, pending_->psn);
  const bool is_ack = std::holds_alternative<proto::syndrome::Ack>(pending_->syndrome);
  write_aeth(builder, is_ack ? ack_with_credits() : pending_->syndrome);
  out = c_.finish(builder);
  pending_.reset();
  return TxStatus::kSent;
}

void Responder::write_aeth(proto::PacketBuilder& packet, proto::Syndrome syndrome) const {
  packet.header<proto::Aeth>()
      .set<proto::Aeth::SyndromeField>(proto::encode_syndrome(syndrome))
      .set<proto::Aeth::Msn>(msn_.value());
}

/// IBTA Vol 1, 9.7.7.2: an ACK that says how many receives are posted, the one of a SEND under way included.
proto::Syndrome Responder::ack_with_credits() {
  if (!c_.env.config.advertise_credits || !receives_.counts_credits()) return proto::syndrome::Ack{};
  const std::uint8_t code = proto::credit_code(receives_.size());
  announced_ = msn_ + proto::kCredits[code];
  return proto::syndrome::Ack{code};
}

/// Sends the next packet of the READ response at the head; a NAK: it can't be sent.
Responder::Verdict Responder::build_read_response(MutBytes frame, proto::Transmit& out) {
  Response& r = responses_.front();
  const bool last = r.psn + 1 == r.end;
  const std::uint32_t size = std::min(r.left, c_.mtu());
  const Opcode opcode = r.begun ? (last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle)
                                : (last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst);
  const std::uint8_t* memory = nullptr;
  if (size != 0) {
    const auto resolved = c_.resolve_remote(r.rkey, r.va, size, kRemoteRead);
    if (!resolved) return Verdict::nak(NakCode::kRemoteAccessError);
    memory = *resolved;
  }
  proto::PacketBuilder builder = c_.begin(frame, opcode, r.psn);
  if (opcode != Opcode::kRcReadResponseMiddle) write_aeth(builder, ack_with_credits());
  const MutBytes payload = builder.payload(size);
  std::uint32_t& crc = builder.start_icrc(c_.attr.path);
  if (size != 0 && !c_.env.mrs.memory().read_with_crc(payload.data(), memory, size, crc)) {
    return Verdict::nak(NakCode::kRemoteOperationalError);
  }
  out = c_.finish(builder);
  c_.note_sent(size);

  r.begun = true;
  r.va += size;
  r.left -= size;
  ++r.psn;
  if (last) responses_.pop();
  return Verdict::go_on();
}

void Responder::build_atomic_response(MutBytes frame, proto::Transmit& out) {
  const Response& r = responses_.front();
  proto::PacketBuilder builder = c_.begin(frame, Opcode::kRcAtomicAcknowledge, r.psn);
  write_aeth(builder, ack_with_credits());
  builder.header<proto::AtomicAckEth>().set<proto::AtomicAckEth::Original>(r.original);
  out = c_.finish(builder);
}

}  // namespace uroce::nic
