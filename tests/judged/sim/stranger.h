// SPDX-License-Identifier: Apache-2.0
// Somebody on the network who sees every packet and knows every QPN, PSN and R_Key, and sends packets with a right
// ICRC. From another address than the peer's, nothing that is sent may have any effect: the oracle and the lint make no
// allowance for it. In the peer's name, a packet out of sequence may cost what a lost packet costs, and the next
// request may break the connection; but R_Keys are wrong then, so that no memory may change.
#pragma once

#include <deque>

#include "engine/sans_io.h"
#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/wire_lint.h"

namespace uroce::simulator {

class Stranger {
 public:
  Stranger(Stage& stage, const std::vector<Connection*>& connections);
  /// Sends forged packets until the faults are over.
  void begin();
  /// One of them is about to reach its node.
  void delivered(const engine::sim::Packet& packet);
  engine::sim::NodeId node() const { return node_; }

  // --- engine::SansIoNic
  void on_datagram(const proto::Datagram&, Instant) {}
  void on_timeout(Instant) {}
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame);
  std::optional<Instant> next_deadline() const { return std::nullopt; }

 private:
  struct Forged {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
  };
  void forge();
  proto::Path draw_path(End& victim, End& peer, bool as_peer);
  std::uint8_t draw_opcode(bool& near);
  proto::Psn draw_psn(proto::Psn expected, bool near);
  std::vector<std::uint8_t> draw_packet(const proto::Path& path, End& victim, bool as_peer);
  void fill_headers(proto::PacketBuilder& packet, const proto::OpcodeInfo& op, End& victim, bool true_key);

  Stage& stage_;
  const std::vector<Connection*>& connections_;
  engine::sim::Random random_;
  proto::Gid gid_;
  engine::sim::NodeId node_;
  std::deque<Forged> outbox_;
};

}  // namespace uroce::simulator
