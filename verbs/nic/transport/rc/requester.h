// SPDX-License-Identifier: Apache-2.0
// The requester half of an RC QP (IBTA Vol 1, 9.7.2 .. 9.7.6): turns send WRs into request packets and responses into
// completions.
//
//        head               una   next        max              tail        WQEs:  [head, tail), oldest first
//   ------|------------------|-----|-----------|----------------|--------> PSN
//         completed before   | in  | sent once, to be sent again (after a rewind)
//                            | flight
//
// Reliability is go-back-N without stored packets: `next` is a cursor into the send queue, a NAK or a timeout moves it
// back to `una`, and the packets are generated again. A READ takes one PSN per response packet; it is issued in pieces
// of at most kReadPieceBytes, so that its responses cannot overrun our own receive buffer.
#pragma once

#include "proto/syndrome.h"
#include "verbs/nic/model/tunables.h"
#include "verbs/nic/resources/work_queues.h"
#include "verbs/nic/transport/base/halves.h"
#include "verbs/nic/transport/rc/credit_limit.h"

namespace uroce::nic {

/// PSNs that may be outstanding: one more, and an old packet could be taken for a new one (IBTA Vol 1, 9.7.2).
inline constexpr std::uint32_t kMaxPsnsOutstanding = (1u << 23) - 1;

class Requester final : public RequesterHalf {
 public:
  Requester(QpContext& context, TimerTable& timers);

  Errno check(const SendWr& wr, std::uint32_t ahead) const override;
  Errno post(const SendWr& wr) override;
  void start() override;
  TxStatus poll_transmit(Instant now, MutBytes frame, bool no_new_messages, proto::Transmit& out) override;
  /// Takes in an ACK, NAK, READ response or atomic ACK. Those outside the window are ignored.
  bool on_response(const proto::PacketView& packet, Instant now) override;
  void on_timeout(Instant now) override;
  void flush() override;
  void clear() override;
  bool waits_for_window() const override { return waits_for_window_; }
  bool drained() const override;
  void release_window() override;
  /// Starts the retry and RNR counts afresh from the attributes.
  void reload_retry_counts() override;
  void reload_timeout() override;
  void describe(QpInside& inside) const override;

 private:
  // requester_transmit.cc
  bool waits_for_answer() const;
  bool blocked(const SendWqe& wqe, bool no_new_messages) const;
  bool waits_for_credit(const SendWqe& wqe, Instant now);
  proto::Opcode opcode_at(const SendWqe& wqe, std::uint32_t packet) const;
  bool build_request(MutBytes frame, proto::Transmit& out);
  bool execute_local();
  bool may_proceed(bool no_new_messages);
  TxStatus send_next(Instant now, MutBytes frame, proto::Transmit& out);
  bool wants_ack(const SendWqe& wqe, std::uint32_t end_packet, std::uint64_t cost) const;
  void account_sent(Psn end, Instant now);

  // requester_response.cc
  void on_acknowledge(const proto::PacketView& packet, Instant now);
  void on_nak(proto::NakCode code);
  bool is_refused_already() const;
  void on_rnr(std::uint8_t timer, Instant now);
  void on_read_response(const proto::PacketView& packet, Instant now);
  bool is_in_place(const proto::PacketView& packet, std::uint32_t index) const;
  void on_atomic_acknowledge(const proto::PacketView& packet, Instant now);
  void take_credits(const proto::PacketView& packet);
  void acknowledge_before(Psn psn, Instant now);
  void advance_una(std::uint32_t packets);
  void complete_head(WcStatus status);
  void succeed_head();
  void fail_head(WcStatus status);

  // requester_retry.cc
  void retry();
  void retry_once_for_missing_response();
  void retry_once_for_sequence_nak();
  void rewind();
  void note_progress(Instant now);
  void start_ack_timer(Instant now);
  bool waits_again(Instant due, Instant now);
  std::optional<Duration> ack_timeout() const;  ///< Nothing: for ever.
  void fail_locally(WcStatus status);

  std::uint32_t piece_packets() const;
  std::uint32_t pieces(std::uint32_t packets) const;
  std::uint32_t packet_index(const SendWqe& wqe) const { return psn_distance(next_, wqe.first_psn); }
  std::uint32_t piece_end(const SendWqe& wqe, std::uint32_t packet) const;

  QpContext& c_;
  TimerTable& timers_;
  SendQueue sq_;
  std::uint64_t cursor_ = 0;  ///< WQE that `next_` lies in.
  Psn una_, next_, max_;
  std::uint64_t posted_ = 0;  ///< WRs so far, for injected faults.
  Psn post_;                  ///< First PSN of the next WR to be posted.
  Ssn post_ssn_;              ///< Its message sequence number.
  CreditLimit credits_;
  Psn counted_from_;        ///< Packets in [max(una_, counted_from_), next_) are charged to the window.
  Psn resumed_;             ///< Where the last READ request began that asked for the rest of a piece.
  std::vector<Psn> reads_;  ///< End PSNs of READ pieces and atomics in flight, oldest first; at most max_rd_atomic.
  std::uint8_t retry_left_ = 0, rnr_left_ = 0;
  std::uint8_t late_timeouts_ = 0;  ///< That did not count, since the ACK timer was started.
  std::uint32_t since_ack_request_ = 0;
  Psn ack_due_;  ///< One past the newest packet that asked for an ACK: before it, the peer owes us one.
  bool timeout_changed_ = false;  ///< The ACK timer must start afresh.
  bool went_back_ = false;        ///< For a NAK, said or implied; until there is progress or a timeout, once is enough.
  bool stalled_ = false;          ///< Nothing has been answered for long.
  bool is_probing_ = false;       ///< After a timeout, until there is progress.
  /// A packet that asked for an ACK, whose round trip is measured; the ACK may be to a later one.
  struct Measured {
    Psn psn;  ///< One past it.
    Instant sent;
  };
  std::optional<Measured> measured_;
  bool waits_for_window_ = false;
  bool try_without_credit_ = false;      ///< Patience is over: the limited message may be tried.
  std::optional<WcStatus> local_error_;  ///< For the WQE at the cursor; reported when those before it have completed.
};

}  // namespace uroce::nic
