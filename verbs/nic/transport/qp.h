// SPDX-License-Identifier: Apache-2.0
// One queue pair: state, requester, responder. They share the context and nothing else; what one of them finds wrong
// moves the QP to ERR here.
#pragma once

#include "verbs/nic/model/tunables.h"
#include "verbs/nic/transport/base/halves.h"

namespace uroce::nic {

class Qp {
 public:
  Qp(QpEnv& env, std::uint32_t qpn, const QpInit& init);

  /// EINVAL: illegal transition, or an attribute missing, unexpected or out of range; ENOMEM: no memory. Nothing
  /// changes then.
  Errno modify(const QpAttr& attr, std::uint32_t mask);
  Errno post_send(const SendWr& wr);
  /// What post_send() would say of `wr` behind `ahead` other WRs.
  Errno check_send(const SendWr& wr, std::uint32_t ahead) const;
  Errno post_recv(const RecvWr& wr);
  /// A packet for this QP of the right service, with the right `icrc`.
  void on_packet(const proto::PacketView& packet, const Path& path, const proto::IcrcCheck& icrc, Instant now);
  void on_timeout(Instant now);
  TxStatus poll_transmit(Instant now, MutBytes frame, proto::Transmit& out);
  /// kNever without a timer.
  Instant next_deadline() const { return timers_.next(); }
  /// Moves to ERR and flushes both queues; `why` is raised when given.
  void enter_error(std::optional<Event::Kind> why);
  /// Forgets its WRs and its completions, in RESET and before it is destroyed: nobody could tell the completions from
  /// those of its next life, and who has destroyed it may have forgotten what their wr_id means. (IBTA Vol 1 leaves it
  /// open; mlx4, mlx5, irdma and others do so, rxe does not.)
  void clear();

  /// After post_recv(): true when it led to completions or to a packet.
  bool wants_turn() const { return state() == QpState::kErr || responder_->has_output(); }

  std::uint32_t qpn() const { return c_.qpn; }
  QpType type() const { return c_.init.type; }
  QpState state() const { return c_.attr.state; }
  const QpAttr& attr() const { return c_.attr; }
  const QpInit& init() const { return c_.init; }
  /// Its inner state.
  QpInside inside() const;
  /// If it has both, the next packet is an answer and not a request.
  void answer_first() { answer_next_ = true; }
  /// After the next packet it is the turn of another QP.
  void set_last_of_turn(bool is_last) { c_.last_of_turn = is_last; }
  PeerWindow& window() const { return *c_.window; }
  bool draining() const { return state() == QpState::kSqd && !drained_; }

  /// What the NIC keeps with a QP: its place in lists and in order.
  struct Links {
    std::uint32_t nth = 0;         ///< Which of the NIC's QPs, as they were created, from 1.
    std::uint32_t life = 0;        ///< How often it has been reset.
    bool ready = false;            ///< In the list of QPs to ask for packets.
    bool waiting = false;          ///< In the list of QPs that their window holds back.
    int turn_left = kTurnPackets;  ///< Packets.
    std::size_t heap = 0;          ///< 1 + index in the deadline heap; 0: not in it.
    Instant deadline{};            ///< As the heap knows it.
  } links;

 private:
  bool plausible_id(const Path& path, std::uint16_t ip_id, Instant now);
  void learn_id(const Path& path, std::uint16_t ip_id, Instant now);
  Errno check_ranges(const QpAttr& attr, std::uint32_t mask) const;
  Errno apply(const QpAttr& attr, std::uint32_t mask);
  void take_path(std::shared_ptr<PeerWindow> window);
  void enter(QpState from, QpState to, const QpAttr& attr);
  void settle();
  void enter_send_error();
  void set_state(QpState to);

  QpContext c_;
  TimerTable timers_;
  std::unique_ptr<RequesterHalf> requester_;
  std::unique_ptr<ResponderHalf> responder_;
  bool answer_next_ = true;                 ///< Responder and requester take turns when both have packets.
  bool communication_established_ = false;  ///< RTR: the first request has been told of.
  static constexpr int kZeroIdsProve = 3;
  int zero_ids_ = 0;            ///< Packets of the peer in a row under IPv4 Identification 0, up to kZeroIdsProve.
  bool drained_ = false;        ///< SQD: the drain has completed (and been told).
  bool last_wqe_told_ = false;  ///< ERR, with an SRQ: that no more receives are taken has been told.
};

}  // namespace uroce::nic
