// SPDX-License-Identifier: Apache-2.0
// The responder half of a UD QP (IBTA Vol 1, 9.8.3): every packet is a message, from anybody who knows the Q_Key. What
// can't be received is dropped silently.
#pragma once

#include "verbs/nic/transport/base/halves.h"
#include "verbs/nic/transport/base/receives.h"

namespace uroce::nic {

class UdResponder final : public ResponderHalf {
 public:
  explicit UdResponder(QpContext& context);

  Errno post(const RecvWr& wr) override { return receives_.post(wr); }
  void start() override { c_.receive_failed.reset(); }
  void set_depth(std::uint32_t) override {}
  bool on_request(const Arrival& arrival) override;
  TxStatus poll_transmit(MutBytes, proto::Transmit&) override { return TxStatus::kIdle; }
  bool has_output() const override { return false; }
  void flush() override;
  void drop_output() override {}
  void clear() override;
  void describe(QpInside& inside) const override { receives_.describe(inside); }

 private:
  bool can_take(const proto::PacketView& packet);

  QpContext& c_;
  Receives receives_;
};

}  // namespace uroce::nic
