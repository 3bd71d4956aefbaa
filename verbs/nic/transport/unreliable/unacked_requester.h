// SPDX-License-Identifier: Apache-2.0
// The requester half of UC and UD QPs (IBTA Vol 1, 9.8): turns send WRs into packets and forgets them. A WR completes
// when its last packet has been handed over; whether anybody got it, nobody says. An error ends the sending, not the
// QP: it goes to SQE.
#pragma once

#include "verbs/nic/model/tunables.h"
#include "verbs/nic/resources/work_queues.h"
#include "verbs/nic/transport/base/halves.h"

namespace uroce::nic {

class UnackedRequester final : public RequesterHalf {
 public:
  UnackedRequester(QpContext& context, TimerTable& timers);

  Errno check(const SendWr& wr, std::uint32_t ahead) const override;
  Errno post(const SendWr& wr) override;
  void start() override;
  TxStatus poll_transmit(Instant now, MutBytes frame, bool no_new_messages, proto::Transmit& out) override;
  bool on_response(const proto::PacketView&, Instant) override { return false; }
  void on_timeout(Instant now) override;
  void flush() override;
  void clear() override;
  bool waits_for_window() const override { return waits_for_window_; }
  bool drained() const override { return packet_ == 0; }
  void release_window() override;
  void reload_retry_counts() override {}
  void reload_timeout() override {}
  void describe(QpInside& inside) const override {
    inside.una = inside.next = inside.max = next_;
    inside.queued_sends = static_cast<std::uint32_t>(sq_.tail() - sq_.head());
    inside.begun_sends = packet_ == 0 ? 0 : 1;
    inside.waits_for_window = waits_for_window_;
  }

 private:
  bool is_ud() const { return c_.init.type == QpType::kUd; }
  bool offers(SendOp op) const;
  std::optional<WcStatus> flaw(const SendWqe& wqe) const;
  proto::Room room_for_next() const;
  bool build(MutBytes frame, proto::Transmit& out);
  void take_window(const Path& path, std::uint32_t payload, Instant now);
  void complete_head(WcStatus status);
  void fail_head(WcStatus status);

  QpContext& c_;
  TimerTable& timers_;
  SendQueue sq_;
  RawArray<UdTarget> targets_;  ///< UD: of the WQE at the same place.
  std::uint32_t packet_ = 0;    ///< In the WQE at the head: the next one to send.
  Psn next_;
  std::uint64_t posted_ = 0;  ///< WRs so far, for injected faults.
  std::uint64_t held_ = 0;    ///< Bytes that our packets take of the window.
  bool waits_for_window_ = false;
};

}  // namespace uroce::nic
