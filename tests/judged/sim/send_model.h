// SPDX-License-Identifier: Apache-2.0
// What a UC or UD QP sends: exactly the packets of its WRs, one after the other, and never an answer. Sees every packet
// that leaves the QP, and so knows which WRs are done.
#pragma once

#include <deque>
#include <vector>

#include "engine/sim/link.h"
#include "proto/packet.h"
#include "tests/judged/sim/work.h"

namespace uroce::simulator {

/// A WR that a UC or UD QP is to send.
struct Sending {
  std::uint64_t id = 0;
  nic::SendOp kind = nic::SendOp::kSend;
  std::uint64_t seed = 0;  ///< For its bytes.
  std::uint32_t length = 0;
  std::uint32_t imm = 0;
  bool has_imm = false, solicited = false;
  bool must_fail = false;
  // WRITE.
  bool is_write = false;
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  nic::UdTarget target;  ///< UD.
};

class SendModel {
 public:
  /// A QP as its owner made it.
  struct Facts {
    engine::sim::NodeId node{}, peer_node{};
    std::uint32_t qpn = 0;
    bool connected = false;  ///< UC.
    std::uint32_t peer_qpn = 0;
    proto::Path path;  ///< UC.
    std::uint32_t mtu = 0;
    std::uint32_t qkey = 0;  ///< UD: for WRs that name a controlled one.
  };
  /// The QP goes to RTS.
  void start(const Facts& facts, proto::Psn psn);
  void set_qkey(std::uint32_t qkey) { facts_.qkey = qkey; }
  void posted(const Sending& wr) { queue_.push_back(wr); }
  /// The QP was in SQE: what is queued will never be sent, nor the rest of what was begun.
  void abandon();
  /// The QP may send nothing from now on.
  void silence() { silent_ = true; }
  void set_draining(bool draining) { draining_ = draining; }

  /// Whether this packet comes from this QP.
  bool is_of(const engine::sim::Packet& packet, const proto::PacketView& view) const;
  void sent(const engine::sim::Packet& packet, const proto::PacketView& view);

  /// All packets of the WR have been sent.
  bool has_sent(std::uint64_t id) const { return id <= sent_id_; }
  bool in_message() const { return packet_ != 0; }

 private:
  void check_headers(const Sending& wr, const proto::PacketView& view) const;
  void check_target(const Sending& wr, const engine::sim::Packet& packet, const proto::PacketView& view) const;

  Facts facts_;
  std::deque<Sending> queue_;
  std::uint32_t packet_ = 0;  ///< In the front WR: the next one.
  proto::Psn psn_;
  std::uint64_t sent_id_ = 0;
  bool silent_ = true, draining_ = false;
  std::vector<std::uint8_t> bytes_;  ///< The front WR's.
};

/// All of them.
class UnackedLint {
 public:
  void add(SendModel& model) { models_.push_back(&model); }
  void sent(const engine::sim::Packet& packet, const proto::PacketView& view);

 private:
  std::vector<SendModel*> models_;
};

}  // namespace uroce::simulator
