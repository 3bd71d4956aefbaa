// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/qp.h"

#include <cerrno>
#include <new>
#include <utility>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/resources/cq.h"
#include "verbs/nic/transport/make_halves.h"

namespace uroce::nic {

Qp::Qp(QpEnv& env, std::uint32_t qpn, const QpInit& init)
    : c_{env, this, qpn, init}, requester_(make_requester(c_, timers_)), responder_(make_responder(c_)) {}

Errno Qp::post_send(const SendWr& wr) {
  if (!rights(state()).post_send) return EINVAL;
  if (const Errno error = requester_->post(wr)) return error;
  if (rights(state()).flush_send) requester_->flush();
  return 0;
}

Errno Qp::check_send(const SendWr& wr, std::uint32_t ahead) const {
  return rights(state()).post_send ? requester_->check(wr, ahead) : EINVAL;
}

Errno Qp::post_recv(const RecvWr& wr) {
  if (!rights(state()).post_recv) return EINVAL;
  if (const Errno error = responder_->post(wr)) return error;
  if (rights(state()).flush_recv) responder_->flush();
  return 0;
}

/// A recovered Identification costs 16 bits of the ICRC's redundancy. Peers that number their packets never send 0
/// several times in a row; from one that did (uroce does), anything but 0 is a corrupt packet. From one that counts, so
/// is one far from those before.
bool Qp::plausible_id(const Path& path, std::uint16_t ip_id, Instant now) {
  return ip_id == 0 || (zero_ids_ < kZeroIdsProve && c_.env.identifications.is_plausible(path, ip_id, now));
}

/// Only from packets that nobody but the peer can have sent: a stranger could teach us what shuts out the peer.
void Qp::learn_id(const Path& path, std::uint16_t ip_id, Instant now) {
  if (zero_ids_ < kZeroIdsProve) zero_ids_ = ip_id == 0 ? zero_ids_ + 1 : 0;
  if (ip_id != 0) c_.env.identifications.learn(path, ip_id, now);
}

void Qp::on_packet(const proto::PacketView& packet, const Path& path, const proto::IcrcCheck& icrc, Instant now) {
  const std::uint16_t ip_id = icrc.ip_id;
  const bool connected = type() != QpType::kUd;
  if (connected && !plausible_id(path, ip_id, now)) {
    c_.note<TraceKind::kDropIdentification>(ip_id, packet.psn().value());
    return;
  }
  if (ip_id != 0) c_.note<TraceKind::kIdRecovered>(ip_id, packet.psn().value());
  const bool is_response = packet.op().is_response();
  const bool takes_requests = rights(state()).respond && !c_.receive_failed;
  if (is_response ? !rights(state()).complete : !takes_requests) {
    c_.note<TraceKind::kDropState>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    return;
  }
  // IBTA Vol 1, 9.6.1.?: a connected QP hears only its peer.
  if (connected && (path.source != c_.attr.path.destination || path.destination != c_.attr.path.source)) {
    c_.note<TraceKind::kDropSource>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    return;
  }
  bool from_peer = false;
  if (is_response) {
    from_peer = requester_->on_response(packet, now);
  } else {
    if (connected && state() == QpState::kRtr && !communication_established_) {
      communication_established_ = true;
      c_.note<TraceKind::kEstablished>(packet.psn().value());
      c_.env.raise(Event::Kind::kCommEst, this);
    }
    if (type() != QpType::kRc && packet.op().kind == proto::Kind::kSend)
      c_.env.windows.on_unacked_send(static_cast<std::uint32_t>(packet.payload().size()));
    from_peer = responder_->on_request({packet, path, icrc});
  }
  settle();
  if (from_peer && connected) learn_id(path, ip_id, now);
}

void Qp::on_timeout(Instant now) {
  requester_->on_timeout(now);
  settle();
}

TxStatus Qp::poll_transmit(Instant now, MutBytes frame, proto::Transmit& out) {
  const bool may_request = rights(state()).complete;  // In SQD, to finish what was begun.
  for (int i = 0; i < 2; ++i) {
    const bool answer = answer_next_ == (i == 0);
    if (answer) {
      if (responder_->poll_transmit(frame, out) == TxStatus::kSent) {
        answer_next_ = false;
        settle();
        return TxStatus::kSent;
      }
    } else if (may_request) {
      if (requester_->poll_transmit(now, frame, !rights(state()).request, out) == TxStatus::kSent) {
        answer_next_ = true;
        settle();
        return TxStatus::kSent;
      }
    }
  }
  settle();
  answer_next_ = false;  // A program waits for its request; for an ACK, only the end of one.
  return may_request && requester_->waits_for_window() ? TxStatus::kWindow : TxStatus::kIdle;
}

QpInside Qp::inside() const {
  QpInside inside;
  requester_->describe(inside);
  responder_->describe(inside);
  inside.window_used = c_.window->used();
  inside.window_limit = c_.window->limit();
  inside.waits_for_window &= !c_.window->has_room();  // What the QP does not know yet: it has not been asked again.
  for (std::size_t i = 0; i < inside.timers.size(); ++i) {
    const Timer timer = static_cast<Timer>(i);
    inside.timers[i] = timers_.running(timer) ? timers_.at(timer) : Instant{};
  }
  return inside;
}

void Qp::set_state(QpState to) {
  c_.note<TraceKind::kState>(static_cast<std::uint64_t>(state()), static_cast<std::uint64_t>(to));
  c_.attr.state = to;
}

/// Draws the consequences of what the halves found.
void Qp::settle() {
  if (state() == QpState::kErr || state() == QpState::kReset) return;
  if (c_.send_failed) {
    type() == QpType::kRc ? enter_error(std::nullopt) : enter_send_error();
  } else if (c_.receive_failed && !responder_->is_answering()) {  // The request that failed is behind those.
    enter_error(c_.receive_failed);
  } else if (state() == QpState::kSqd && !drained_ && requester_->drained()) {
    drained_ = true;
    if (c_.attr.en_sqd_notify) c_.env.raise(Event::Kind::kSqDrained, this);
  }
}

/// IBTA Vol 1, 10.3.1.6: with UC and UD, a send that failed stops the sending half only.
void Qp::enter_send_error() {
  set_state(QpState::kSqe);
  requester_->flush();
}

void Qp::enter_error(std::optional<Event::Kind> why) {
  set_state(QpState::kErr);
  if (why) c_.env.raise(*why, this);
  responder_->flush();
  requester_->flush();
  if (c_.init.srq != nullptr && !std::exchange(last_wqe_told_, true)) {
    c_.env.raise(Event::Kind::kLastWqeReached, this);
  }
}

Errno Qp::check_ranges(const QpAttr& attr, std::uint32_t mask) const {
  const auto has = [mask](std::uint32_t bit) { return (mask & bit) != 0; };
  if (has(kAttrCurState) && attr.cur_state != state()) return EINVAL;
  if (has(kAttrPort) && attr.port != 1) return EINVAL;
  if (has(kAttrPkeyIndex) && attr.pkey_index != 0) return EINVAL;
  if (has(kAttrPathMtu) && (!proto::is_mtu_code(attr.path_mtu) || attr.path_mtu > c_.env.config.mtu_max)) return EINVAL;
  if (has(kAttrTimeout) && attr.timeout > 31) return EINVAL;
  if (has(kAttrRetryCnt) && attr.retry_cnt > 7) return EINVAL;
  if (has(kAttrRnrRetry) && attr.rnr_retry > 7) return EINVAL;
  if (has(kAttrMinRnrTimer) && attr.min_rnr_timer > 31) return EINVAL;
  if (has(kAttrMaxRdAtomic) && attr.max_rd_atomic > kMaxRdAtomic) return EINVAL;
  if (has(kAttrMaxDestRdAtomic) && attr.max_dest_rd_atomic > kMaxRdAtomic) return EINVAL;
  return 0;
}

Errno Qp::modify(const QpAttr& attr, std::uint32_t mask) {
  const QpState from = state();
  const QpState to = (mask & kAttrState) ? attr.state : from;
  if (check_transition(type(), from, to, mask).code != TransitionVerdict::Code::kOk) return EINVAL;
  if (const Errno error = check_ranges(attr, mask)) return error;
  if (const Errno error = apply(attr, mask)) return error;
  enter(from, to, attr);
  return 0;
}

/// ENOMEM: nothing has changed. So what takes memory comes first.
Errno Qp::apply(const QpAttr& attr, std::uint32_t mask) {
  QpAttr& a = c_.attr;
  std::shared_ptr<PeerWindow> window;
  try {
    if (mask & kAttrAv) window = c_.env.windows.along(attr.path, type() == QpType::kRc);
    if (mask & kAttrMaxDestRdAtomic) responder_->set_depth(attr.max_dest_rd_atomic);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  const auto take = [mask](std::uint32_t bit, auto& to, const auto& from) {
    if (mask & bit) to = from;
  };
  take(kAttrAccess, a.access, attr.access);
  take(kAttrPkeyIndex, a.pkey_index, attr.pkey_index);
  take(kAttrPort, a.port, attr.port);
  take(kAttrAv, a.path, attr.path);
  take(kAttrAv, a.sgid_index, attr.sgid_index);
  take(kAttrPathMtu, a.path_mtu, attr.path_mtu);
  take(kAttrTimeout, a.timeout, attr.timeout);
  take(kAttrRetryCnt, a.retry_cnt, attr.retry_cnt);
  take(kAttrRnrRetry, a.rnr_retry, attr.rnr_retry);
  take(kAttrMinRnrTimer, a.min_rnr_timer, attr.min_rnr_timer);
  take(kAttrMaxRdAtomic, a.max_rd_atomic, attr.max_rd_atomic);
  take(kAttrMaxDestRdAtomic, a.max_dest_rd_atomic, attr.max_dest_rd_atomic);
  take(kAttrRqPsn, a.rq_psn, attr.rq_psn);
  take(kAttrSqPsn, a.sq_psn, attr.sq_psn);
  take(kAttrQkey, a.qkey, attr.qkey);
  if (mask & kAttrDestQpn) a.dest_qpn = attr.dest_qpn & 0xFFFFFF;
  if (window != nullptr) take_path(std::move(window));
  if (mask & (kAttrRetryCnt | kAttrRnrRetry)) requester_->reload_retry_counts();
  if (mask & kAttrTimeout) requester_->reload_timeout();
  return 0;
}

/// Perhaps to another peer.
void Qp::take_path(std::shared_ptr<PeerWindow> window) {
  zero_ids_ = 0;
  requester_->release_window();
  c_.window = std::move(window);
}

void Qp::clear() {
  init().send_cq->drop(qpn());
  if (init().recv_cq != init().send_cq) init().recv_cq->drop(qpn());
  requester_->clear();
  responder_->clear();
}

void Qp::enter(QpState from, QpState to, const QpAttr& attr) {
  set_state(to);
  switch (to) {
    case QpState::kReset:
      clear();
      c_.attr = QpAttr{};
      zero_ids_ = 0;
      last_wqe_told_ = false;
      break;
    case QpState::kRtr:
      communication_established_ = false;
      responder_->start();
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) requester_->start();
      break;
    case QpState::kSqd:
      if (from == QpState::kRts) {
        drained_ = false;
        c_.attr.en_sqd_notify = attr.en_sqd_notify;
        settle();
      }
      break;
    case QpState::kErr:
      responder_->drop_output();
      enter_error(std::nullopt);
      break;
    default:
      break;
  }
}

}  // namespace uroce::nic
