// SPDX-License-Identifier: Apache-2.0
// The responder half of a UC QP (IBTA Vol 1, 9.8.2): messages arrive in order and whole, or not at all. It never
// answers; a message that misses a packet, or that it can't take, is dropped silently, and the receive that it
// would have taken waits for the next one.
#pragma once

#include "verbs/nic/transport/base/halves.h"
#include "verbs/nic/transport/base/inbound_message.h"
#include "verbs/nic/transport/base/receives.h"

namespace uroce::nic {

class UcResponder final : public ResponderHalf {
 public:
  explicit UcResponder(QpContext& context);

  Errno post(const RecvWr& wr) override { return receives_.post(wr); }
  /// Takes over the attributes of RTR: first expected PSN.
  void start() override;
  void set_depth(std::uint32_t) override {}
  bool on_request(const Arrival& arrival) override;
  TxStatus poll_transmit(MutBytes, proto::Transmit&) override { return TxStatus::kIdle; }
  bool has_output() const override { return false; }
  void flush() override;
  void drop_output() override {}
  void clear() override;
  void describe(QpInside& inside) const override {
    inside.expected = expected_;
    receives_.describe(inside);
  }

 private:
  void lose_message();
  bool take_packet(const proto::PacketView& packet);
  bool take_send(const proto::PacketView& packet);
  bool take_write(const proto::PacketView& packet);
  bool refuse(const proto::PacketView& packet) const;
  bool lacks_receive(const proto::PacketView& packet) const;
  void note_no_receive(const proto::PacketView& packet) const;

  QpContext& c_;
  Receives receives_;
  Psn expected_;
  InboundMessage message_;
};

}  // namespace uroce::nic
