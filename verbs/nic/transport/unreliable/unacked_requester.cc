// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/unreliable/unacked_requester.h"

#include <algorithm>
#include <cerrno>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/resources/sges.h"

namespace uroce::nic {
namespace {

using proto::Opcode;

Opcode opcode_at(const SendWqe& wqe, std::uint32_t packet) {
  using O = Opcode;
  const bool imm = wqe.op == SendOp::kSendImm || wqe.op == SendOp::kWriteImm;
  const bool last = packet + 1 == wqe.packets;
  if (wqe.op == SendOp::kWrite || wqe.op == SendOp::kWriteImm) {
    if (packet == 0) return !last ? O::kUcWriteFirst : imm ? O::kUcWriteOnlyImm : O::kUcWriteOnly;
    return !last ? O::kUcWriteMiddle : imm ? O::kUcWriteLastImm : O::kUcWriteLast;
  }
  if (packet == 0) return !last ? O::kUcSendFirst : imm ? O::kUcSendOnlyImm : O::kUcSendOnly;
  return !last ? O::kUcSendMiddle : imm ? O::kUcSendLastImm : O::kUcSendLast;
}

/// IBTA Vol 1, 10.2.5: a Q_Key with the top bit set is a controlled one, which a WR can't name.
constexpr std::uint32_t kControlledQkey = 1u << 31;

}  // namespace

UnackedRequester::UnackedRequester(QpContext& context, TimerTable& timers)
    : c_(context),
      timers_(timers),
      sq_(context.init.max_send_wr, context.init.max_send_sge, context.init.max_inline),
      targets_(is_ud() ? context.init.max_send_wr : 0) {}

void UnackedRequester::start() {
  next_ = c_.attr.sq_psn;
  packet_ = 0;
  c_.send_failed = false;
}

/// IBTA Vol 1, 11.4.1.1 (operations by service): UC has SEND and WRITE, UD has SEND.
bool UnackedRequester::offers(SendOp op) const {
  switch (op) {
    case SendOp::kSend:
    case SendOp::kSendImm:
      return true;
    case SendOp::kWrite:
    case SendOp::kWriteImm:
      return !is_ud();
    default:
      return false;
  }
}

Errno UnackedRequester::check(const SendWr& wr, std::uint32_t ahead) const {
  if (!offers(wr.op) || wr.sges.size() > c_.init.max_send_sge) return EINVAL;
  if (is_ud() && wr.target == nullptr) return EINVAL;
  const std::uint64_t length = total_length(wr.sges);
  if (length > kMaxMessageBytes) return EINVAL;
  if ((wr.flags & kInline) && length > c_.init.max_inline) return EINVAL;
  return sq_.room() > ahead ? 0 : ENOMEM;
}

Errno UnackedRequester::post(const SendWr& wr) {
  if (const Errno error = check(wr, 0)) return error;
  if (is_ud()) targets_[sq_.place(sq_.tail())] = *wr.target;
  SendWqe& wqe = sq_.push(wr, total_length(wr.sges), c_.init.sq_sig_all);
  wqe.injected_status = c_.injected_failure(++posted_);
  wqe.packets = is_ud() ? 1 : c_.packets_for(wqe.length);
  return 0;
}

/// Why a WQE can't be sent at all.
std::optional<WcStatus> UnackedRequester::flaw(const SendWqe& wqe) const {
  if (wqe.injected_status) return wqe.injected_status;
  if (!is_ud()) return std::nullopt;
  // IBTA Vol 1, 10.2.3: an address handle of another protection domain. The status is that of Soft-RoCE.
  const Pd* const pd = targets_[sq_.place(sq_.head())].pd;
  if (pd != nullptr && pd != c_.init.pd) return WcStatus::kLocQpOpErr;
  // IBTA Vol 1, 11.6.2: a datagram longer than a packet.
  if (wqe.length > proto::mtu_bytes(c_.env.config.mtu_max)) return WcStatus::kLocLenErr;
  return std::nullopt;
}

TxStatus UnackedRequester::poll_transmit(Instant now, MutBytes frame, bool no_new_messages, proto::Transmit& out) {
  waits_for_window_ = false;
  if (c_.send_failed || sq_.empty() || (no_new_messages && packet_ == 0)) return TxStatus::kIdle;
  const SendWqe& wqe = sq_.at(sq_.head());
  if (const auto status = flaw(wqe)) {
    fail_head(*status);
    return TxStatus::kIdle;
  }
  const std::uint32_t size = is_ud() ? wqe.length : wqe.packet_bytes(packet_, c_.mtu());
  const proto::Room room = room_for_next();
  if (room == proto::Room::kNone) {
    timers_.set(Timer::kRoom, now + kLookForRoom);
    return TxStatus::kIdle;
  }
  const bool has_receives = wqe.op == SendOp::kWrite || (room == proto::Room::kRead && size >= kUnpacedBytes);
  const bool is_paced = room == proto::Room::kUnknown || !has_receives;
  if (is_paced && !c_.window->has_room()) {
    waits_for_window_ = true;
    return TxStatus::kIdle;
  }
  if (!build(frame, out)) {
    fail_head(WcStatus::kLocProtErr);
    return TxStatus::kIdle;
  }
  c_.note_sent(size);
  if (is_paced) take_window(out.path, size, now);
  ++next_;
  if (++packet_ == wqe.packets) {
    packet_ = 0;
    complete_head(WcStatus::kSuccess);
  }
  return TxStatus::kSent;
}

proto::Room UnackedRequester::room_for_next() const {
  const auto& room = c_.env.config.room;
  if (!room) return proto::Room::kUnknown;
  if (!is_ud()) return room(c_.attr.path, c_.attr.dest_qpn);
  const UdTarget& target = targets_[sq_.place(sq_.head())];
  return room(target.path, target.qpn);
}

bool UnackedRequester::build(MutBytes frame, proto::Transmit& out) {
  const SendWqe& wqe = sq_.at(sq_.head());
  const UdTarget* const target = is_ud() ? &targets_[sq_.place(sq_.head())] : nullptr;
  const Opcode opcode = target == nullptr            ? opcode_at(wqe, packet_)
                        : wqe.op == SendOp::kSendImm ? Opcode::kUdSendOnlyImm
                                                     : Opcode::kUdSendOnly;
  const proto::OpcodeInfo& op = proto::info(opcode);
  proto::PacketBuilder builder = c_.begin(frame, opcode, next_);
  if (target != nullptr) {
    builder.bth().set<proto::Bth::DestQp>(target->qpn);
    builder.header<proto::Deth>()
        .set<proto::Deth::QKey>((target->qkey & kControlledQkey) != 0 ? c_.attr.qkey : target->qkey)
        .set<proto::Deth::SourceQp>(c_.qpn);
  }
  if (op.has(proto::HeaderId::kReth)) {
    builder.header<proto::Reth>()
        .set<proto::Reth::Va>(wqe.remote_addr)
        .set<proto::Reth::RKey>(wqe.rkey)
        .set<proto::Reth::DmaLength>(wqe.length);
  }
  if (op.has(proto::HeaderId::kImmDt)) builder.header<proto::ImmDt>().set<proto::ImmDt::Data>(wqe.imm);
  const bool carries_event = op.ends() && (op.kind == proto::Kind::kSend || op.consumes_receive);
  builder.bth().set<proto::Bth::SolicitedEvent>(wqe.solicited && carries_event);
  // The payload comes last: the ICRC reads the headers, and what is stored behind a copy is slow to be seen.
  const Path& path = target != nullptr ? target->path : c_.attr.path;
  const std::size_t offset = std::size_t{packet_} * (target != nullptr ? 0 : c_.mtu());
  const std::uint32_t size = target != nullptr ? wqe.length : wqe.packet_bytes(packet_, c_.mtu());
  if (!c_.add_payload(builder, path, {sq_, sq_.head(), offset, size})) return false;
  out = {path, builder.finish(path)};
  return true;
}

void UnackedRequester::take_window(const Path& path, std::uint32_t payload, Instant now) {
  const bool is_large = c_.env.windows.has_large_host_queue() && (is_ud() || path.stays_here());
  const std::uint64_t cost = PeerWindow::cost(payload) * (is_large && !path.stays_here() ? kUnackedElsewhere : 1) +
                             std::min(c_.env.windows.take_unacked_read(), c_.window->limit() / 2);
  c_.window->take(cost);
  held_ += cost;
  if (!timers_.running(Timer::kHold)) timers_.set(Timer::kHold, now + (is_large ? kUnackedHostHold : kUnackedHold));
}

void UnackedRequester::release_window() {
  c_.window->give_back(held_);
  held_ = 0;
  timers_.stop(Timer::kHold);
}

void UnackedRequester::on_timeout(Instant now) {
  if (timers_.take_expired(Timer::kHold, now)) release_window();
  static_cast<void>(timers_.take_expired(Timer::kRoom, now));  // The QP will be asked again.
}

void UnackedRequester::complete_head(WcStatus status) {
  if (const auto completion = sq_.completion_of_head(status)) c_.complete(*c_.init.send_cq, *completion);
  sq_.pop();
}

void UnackedRequester::fail_head(WcStatus status) {
  c_.send_failed = true;
  packet_ = 0;
  if (sq_.at(sq_.head()).injected_status) {
    c_.note<TraceKind::kInjectedError>(static_cast<std::uint64_t>(status), next_.value());
  }
  c_.note<TraceKind::kSendFailed>(static_cast<std::uint64_t>(status), next_.value());
  complete_head(status);
}

void UnackedRequester::flush() {
  c_.send_failed = false;  // Dealt with: the QP is in SQE or ERR.
  packet_ = 0;
  while (!sq_.empty()) complete_head(WcStatus::kWrFlushErr);
}

void UnackedRequester::clear() {
  release_window();
  timers_.stop(Timer::kRoom);
  sq_.clear();
  packet_ = 0;
  c_.send_failed = false;
}

}  // namespace uroce::nic
