// SPDX-License-Identifier: Apache-2.0
// Judges every packet that a NIC sends: is it legal for an RC QP at this moment (IBTA Vol 1, chapter 9)? Knows nothing
// of the NIC but what goes in and out of it: packets, the attributes of its QPs, receives posted.
#pragma once

#include <functional>
#include <memory>

#include "engine/sim/link.h"
#include "tests/judged/sim/lint_requests.h"
#include "tests/judged/sim/lint_responses.h"

namespace uroce::simulator {

/// What a packet can do that somebody else sends.
enum class Forgery : std::uint8_t {
  kNothing,        ///< The QP can tell that it is not its peer's, or that it means nothing.
  kOutOfSequence,  ///< As good as one that the network has doubled, or one behind a loss.
  kNext,           ///< Nobody could tell it from the peer's next request.
};

class WireLint {
 public:
  /// A QP that has just been connected: its requests start at `sq_psn`.
  void connected(const QpFacts& facts);
  /// From now on the QP may send nothing: it is in ERR by its owner's will, in RESET, or gone.
  void silenced(engine::sim::NodeId node, std::uint32_t qpn);
  /// The QP's owner has learned that it is in ERR: no more requests.
  void errored(engine::sim::NodeId node, std::uint32_t qpn);
  /// The owner has other attributes now.
  void changed(engine::sim::NodeId node, std::uint32_t qpn, const proto::Path& path, std::uint32_t max_rd_atomic,
               std::uint8_t rnr_timer);
  /// The QP has gone to SQD, or come back to RTS.
  void draining(engine::sim::NodeId node, std::uint32_t qpn, bool draining);
  /// The owner was told that a QP in SQD has drained.
  void drained(engine::sim::NodeId node, std::uint32_t qpn);
  bool is_drained(engine::sim::NodeId node, std::uint32_t qpn) { return make(node, qpn).requests.drained(); }
  /// A send WR was posted that takes so many PSNs.
  void send_posted(engine::sim::NodeId node, std::uint32_t qpn, std::uint32_t psns, bool fenced) {
    make(node, qpn).requests.posted(psns, fenced);
  }
  /// A receive was posted; before connected() too.
  void receive_posted(engine::sim::NodeId node, std::uint32_t qpn);
  /// The queues of the QP were emptied (RESET) or it was destroyed.
  void forget(engine::sim::NodeId node, std::uint32_t qpn);

  /// `packet` leaves its node.
  void sent(const engine::sim::Packet& packet, Instant now);
  /// `packet` is about to be given to the node that it was sent to.
  void delivered(const engine::sim::Packet& packet, Instant now);

  /// Which receive of its connection, counted from 0, an undamaged packet to `node` takes; nothing when it takes none.
  std::optional<std::uint32_t> takes_receive(engine::sim::NodeId node, const proto::PacketView& view);
  /// As delivered(), for a forged packet.
  Forgery forged(const engine::sim::Packet& packet);
  /// The PSN of the request that the QP waits for.
  proto::Psn expected(engine::sim::NodeId node, std::uint32_t qpn);

  /// RNR NAKs that the QP has sent in this connection.
  std::uint32_t rnr_naks(engine::sim::NodeId node, std::uint32_t qpn) const;
  /// Bytes of the node's memory at a virtual address, for what READ responses carry; empty when there are none.
  void set_memory(std::function<Bytes(engine::sim::NodeId, std::uint64_t va, std::size_t size)> memory) {
    memory_ = std::move(memory);
  }
  /// Whether a QP is in ERR: an answer that it still sends tells of the receives that are left, which are none.
  void set_in_error(std::function<bool(engine::sim::NodeId, std::uint32_t qpn)> in_error) {
    in_error_ = std::move(in_error);
  }

 private:
  struct Qp {
    QpFacts facts;
    bool connected = false;
    bool silent = false;
    std::uint32_t receives = 0;
    RequestLint requests;
    ResponseLint responses;
  };
  Qp* find(engine::sim::NodeId node, std::uint32_t qpn);
  Qp& make(engine::sim::NodeId node, std::uint32_t qpn);

  std::vector<std::vector<std::unique_ptr<Qp>>> qps_;  ///< By node and local part of the QPN.
  std::function<Bytes(engine::sim::NodeId, std::uint64_t, std::size_t)> memory_;
  std::function<bool(engine::sim::NodeId, std::uint32_t)> in_error_;
};

}  // namespace uroce::simulator
