// SPDX-License-Identifier: Apache-2.0
// Generating request packets from the send queue (IBTA Vol 1, 9.7.2 and 9.7.3).
#include <utility>

#include "verbs/nic/resources/sges.h"
#include "verbs/nic/transport/rc/requester.h"

namespace uroce::nic {

using proto::Opcode;

namespace {

/// Opcodes of a segmented operation by position.
struct Positions {
  Opcode first, middle, last, only;
};

constexpr Positions positions(SendOp op) {
  using O = Opcode;
  switch (op) {
    case SendOp::kSendImm:
      return {O::kRcSendFirst, O::kRcSendMiddle, O::kRcSendLastImm, O::kRcSendOnlyImm};
    case SendOp::kSendInv:
      return {O::kRcSendFirst, O::kRcSendMiddle, O::kRcSendLastInvalidate, O::kRcSendOnlyInvalidate};
    case SendOp::kWrite:
      return {O::kRcWriteFirst, O::kRcWriteMiddle, O::kRcWriteLast, O::kRcWriteOnly};
    case SendOp::kWriteImm:
      return {O::kRcWriteFirst, O::kRcWriteMiddle, O::kRcWriteLastImm, O::kRcWriteOnlyImm};
    default:
      return {O::kRcSendFirst, O::kRcSendMiddle, O::kRcSendLast, O::kRcSendOnly};
  }
}

}  // namespace

Opcode Requester::opcode_at(const SendWqe& wqe, std::uint32_t packet) const {
  if (wqe.is_read()) return Opcode::kRcReadRequest;
  if (wqe.op == SendOp::kCompareSwap) return Opcode::kRcCompareSwap;
  if (wqe.op == SendOp::kFetchAdd) return Opcode::kRcFetchAdd;
  if (wqe.is_atomic_write()) return Opcode::kRcAtomicWrite;
  if (wqe.is_flush()) return Opcode::kRcFlush;
  const Positions p = positions(wqe.op);
  if (wqe.packets == 1) return p.only;
  if (packet == 0) return p.first;
  return packet + 1 == wqe.packets ? p.last : p.middle;
}

/// Responses that one READ request asks for, at most.
std::uint32_t Requester::piece_packets() const { return kReadPieceBytes / c_.mtu(); }

/// One past the last packet that the next request packet covers: itself, or for a READ the rest of its piece.
std::uint32_t Requester::piece_end(const SendWqe& wqe, std::uint32_t packet) const {
  if (!wqe.is_read()) return packet + 1;
  return std::min(wqe.packets, (packet / piece_packets() + 1) * piece_packets());
}

/// READ requests on the wire for a READ of so many response packets.
std::uint32_t Requester::pieces(std::uint32_t packets) const {
  return (packets + piece_packets() - 1) / piece_packets();
}

/// A peer that owes us an ACK and is silent gets no more: what it has got is enough to answer. Where no timer would
/// send that again (timeout 0), what follows may at least draw a NAK.
bool Requester::waits_for_answer() const {
  if (ack_due_ - una_ <= 0) return false;
  return (stalled_ && c_.attr.timeout != 0) || (is_probing_ && psn_distance(next_, una_) >= kProbePackets);
}

bool Requester::blocked(const SendWqe& wqe, bool no_new_messages) const {
  if (local_error_ || timers_.running(Timer::kRnr) || waits_for_answer()) return true;
  const std::uint32_t packet = packet_index(wqe);
  const Psn end = next_ + (piece_end(wqe, packet) - packet);
  if (psn_distance(end, una_) > kMaxPsnsOutstanding) return true;
  const bool at_start = next_ == wqe.first_psn;
  if (no_new_messages && at_start && next_ == max_) return true;
  // IBTA Vol 1, 10.8.3.3: a fenced WR waits for the READs and atomics before it.
  return wqe.fence && at_start && !reads_.empty();
}

/// IBTA Vol 1, 9.7.7.2. A limited SEND sends its first packet only, to ask whether there is a receive; a limited
/// WRITE with immediate goes as a whole, for it needs the receive at its end.
bool Requester::waits_for_credit(const SendWqe& wqe, Instant now) {
  if (!wqe.takes_receive() || credits_.covers(wqe.ssn)) return false;
  if (next_ != wqe.first_psn) return wqe.op != SendOp::kWriteImm && una_ - wqe.first_psn <= 0;
  const bool sent_before = next_ - max_ < 0;
  if (sent_before) return false;
  if (!credits_.is_limited(wqe.ssn)) return true;
  if (!credits_.heard() || try_without_credit_) return false;
  if (!timers_.running(Timer::kCredit)) {
    c_.note<TraceKind::kCreditWait>(next_.value());
    timers_.set(Timer::kCredit, now + kCreditPatience);
  }
  return true;
}

/// Executes the bind or invalidation at the cursor, once: a rewind may come across it again. False when it failed.
bool Requester::execute_local() {
  SendWqe& wqe = sq_.at(cursor_);
  if (!wqe.executed) {
    const bool done =
        wqe.op == SendOp::kBindMw ? c_.env.mrs.bind(wqe.bind, c_.init.pd, c_.qpn) : c_.invalidate(wqe.rkey);
    if (!done) return false;
    wqe.executed = true;
  }
  const bool at_head = cursor_ == sq_.head();
  ++cursor_;
  if (at_head) succeed_head();
  return true;
}

/// True when the WQE at the cursor may go on.
bool Requester::may_proceed(bool no_new_messages) {
  if (cursor_ == sq_.tail()) return false;
  const SendWqe& wqe = sq_.at(cursor_);
  if (blocked(wqe, no_new_messages)) return false;
  if (wqe.needs_response() && reads_.size() >= c_.attr.max_rd_atomic) {
    if (c_.attr.max_rd_atomic == 0) fail_locally(WcStatus::kLocQpOpErr);  // It could never be sent.
    return false;
  }
  if (wqe.injected_status) {
    fail_locally(*wqe.injected_status);
    return false;
  }
  return true;
}

TxStatus Requester::poll_transmit(Instant now, MutBytes frame, bool no_new_messages, proto::Transmit& out) {
  waits_for_window_ = false;
  if (std::exchange(timeout_changed_, false)) start_ack_timer(now);
  while (may_proceed(no_new_messages)) {
    if (!sq_.at(cursor_).is_local()) return send_next(now, frame, out);
    if (!execute_local()) fail_locally(WcStatus::kMwBindErr);  // IBTA Vol 1, 11.6.2: memory management operation error.
  }
  return TxStatus::kIdle;
}

TxStatus Requester::send_next(Instant now, MutBytes frame, proto::Transmit& out) {
  const SendWqe& wqe = sq_.at(cursor_);
  if (waits_for_credit(wqe, now)) return TxStatus::kIdle;
  if (!c_.window->has_room()) {
    c_.window->note_full();
    c_.note<TraceKind::kWindowFull>(next_.value());
    waits_for_window_ = true;
    return TxStatus::kIdle;
  }
  if (!build_request(frame, out)) {
    fail_locally(WcStatus::kLocProtErr);
    return TxStatus::kIdle;
  }
  account_sent(next_ + (piece_end(wqe, packet_index(wqe)) - packet_index(wqe)), now);
  return TxStatus::kSent;
}

/// At the end of a message, and where more than the next packet has to wait: what nobody asks about takes the window
/// from those that could use it. `cost`: of the next packet.
bool Requester::wants_ack(const SendWqe& wqe, std::uint32_t end_packet, std::uint64_t cost) const {
  const bool asks_for_credit = end_packet == 1 && wqe.takes_receive() && !credits_.covers(wqe.ssn);
  return asks_for_credit || end_packet == wqe.packets || wqe.needs_response() || since_ack_request_ + 1 >= kAckEvery ||
         c_.last_of_turn || !c_.window->has_room(cost) ||
         (is_probing_ && psn_distance(wqe.first_psn + end_packet, una_) >= kProbePackets);
}

bool Requester::build_request(MutBytes frame, proto::Transmit& out) {
  const SendWqe& wqe = sq_.at(cursor_);
  const std::uint32_t packet = packet_index(wqe);
  const std::uint32_t end = piece_end(wqe, packet);
  const Opcode opcode = opcode_at(wqe, packet);
  const proto::OpcodeInfo& op = proto::info(opcode);
  proto::PacketBuilder builder = c_.begin(frame, opcode, next_);

  if (op.has(proto::HeaderId::kReth)) {
    const std::uint64_t offset = std::uint64_t{packet} * c_.mtu();
    const std::uint32_t length = wqe.is_read() ? std::min(wqe.length, end * c_.mtu()) - packet * c_.mtu() : wqe.length;
    builder.header<proto::Reth>()
        .set<proto::Reth::Va>(wqe.remote_addr + offset)
        .set<proto::Reth::RKey>(wqe.rkey)
        .set<proto::Reth::DmaLength>(length);
  }
  if (op.has(proto::HeaderId::kAtomicEth)) {
    const bool swap = wqe.op == SendOp::kCompareSwap;
    builder.header<proto::AtomicEth>()
        .set<proto::AtomicEth::Va>(wqe.remote_addr)
        .set<proto::AtomicEth::RKey>(wqe.rkey)
        .set<proto::AtomicEth::SwapAdd>(swap ? wqe.swap : wqe.compare_add)
        .set<proto::AtomicEth::Compare>(swap ? wqe.compare_add : 0);
  }
  if (op.has(proto::HeaderId::kFeth)) {
    builder.header<proto::Feth>()
        .set<proto::Feth::Selectivity>(wqe.flush.selectivity)
        .set<proto::Feth::Placement>(wqe.flush.placement);
  }
  if (op.has(proto::HeaderId::kImmDt)) builder.header<proto::ImmDt>().set<proto::ImmDt::Data>(wqe.imm);
  if (op.has(proto::HeaderId::kIeth)) builder.header<proto::Ieth>().set<proto::Ieth::RKey>(wqe.rkey);

  std::uint64_t cost = 0;
  for (std::uint32_t i = packet; i < end; ++i) cost += PeerWindow::cost(wqe.packet_bytes(i, c_.mtu()));
  const bool ack = wants_ack(wqe, end, cost);
  const bool carries_event = op.ends() && (op.kind == proto::Kind::kSend || op.consumes_receive);
  builder.bth().set<proto::Bth::AckReq>(ack).set<proto::Bth::SolicitedEvent>(wqe.solicited && carries_event);
  // The payload comes last: the ICRC reads the headers, and what is stored behind a copy is slow to be seen.
  if (op.has_payload) {
    const std::uint32_t size = wqe.packet_bytes(packet, c_.mtu());
    const std::size_t offset = std::size_t{packet} * c_.mtu();
    if (!c_.add_payload(builder, c_.attr.path, {sq_, cursor_, offset, size})) return false;
    c_.note_sent(size);
  }

  c_.window->take(cost);
  since_ack_request_ = ack ? 0 : since_ack_request_ + 1;
  if (ack) ack_due_ = next_ + (end - packet);
  if (ack && !measured_) measured_ = Measured{ack_due_, c_.env.trace.now};
  out = c_.finish(builder);
  return true;
}

void Requester::account_sent(Psn end, Instant now) {
  const SendWqe& wqe = sq_.at(cursor_);
  if (next_ - max_ < 0) c_.note<TraceKind::kRetransmitted>(next_.value());
  if (wqe.needs_response()) reads_.push_back(end);
  if (wqe.is_read() && packet_index(wqe) % piece_packets() != 0) resumed_ = next_;
  const bool starts_message = next_ == max_ && (wqe.is_read() || next_ == wqe.first_psn);
  if (starts_message && !wqe.takes_receive()) credits_.on_message_without_receive();
  if (starts_message) {
    try_without_credit_ = false;
    timers_.stop(Timer::kCredit);
  }
  next_ = end;
  if (next_ - max_ > 0) max_ = next_;
  if (next_ == wqe.end_psn()) ++cursor_;
  if (!timers_.running(Timer::kAck)) start_ack_timer(now);
  if (!timers_.running(Timer::kStall)) timers_.set(Timer::kStall, now + c_.window->patience());
}

}  // namespace uroce::nic
