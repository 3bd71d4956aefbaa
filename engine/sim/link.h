// SPDX-License-Identifier: Apache-2.0
// The simulated wire: what happens to one packet between poll_transmit() at its sender and on_datagram() at its
// receiver. Faults come from two sources: a filter that a test writes (this very packet), and seeded impairments (any
// packet, with a probability).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "engine/sim/random.h"
#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::engine::sim {

/// Index of a node of a World, in order of attach().
using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = ~NodeId{0};

/// One packet on its way. A filter may change `path` (an ECN mark, say) and the bytes, and shorten `bytes`.
struct Packet {
  NodeId from = kNoNode;
  NodeId to = kNoNode;       ///< Nobody, or not known yet: a packet to a multicast group that is being sent.
  std::uint64_t number = 0;  ///< Counts all packets of the world from 0, in order of transmission.
  proto::Path path;
  MutBytes bytes;           ///< BTH .. ICRC
  bool corrupted = false;   ///< The impairments flipped bits of it ...
  bool disordered = false;  ///< ... doubled it, or let later ones overtake it.
};

/// What a filter wants done with a packet. To alter it, change the packet and pass it.
struct Verdict {
  std::uint32_t copies = 1;
  Duration extra_delay{};

  static constexpr Verdict pass() { return {}; }
  static constexpr Verdict drop() { return {.copies = 0, .extra_delay = {}}; }
  static constexpr Verdict duplicate() { return {.copies = 2, .extra_delay = {}}; }
  /// Arrives `by` later than it would have; later packets overtake it.
  static constexpr Verdict delay(Duration by) { return {.copies = 1, .extra_delay = by}; }
};

using Filter = std::function<Verdict(Packet& packet, Instant now)>;

/// Seeded faults; probabilities in [0, 1] per packet.
struct Impairments {
  double loss = 0;
  double duplicate = 0;             ///< A second copy arrives up to `reorder_delay` after the first.
  double reorder = 0;               ///< Arrives up to `reorder_delay` late, overtaken by later ones.
  double corrupt = 0;               ///< One to three bits of BTH .. ICRC flip.
  double ecn_mark = 0;              ///< ECN-capable packets (RFC 3168: ECT(0), ECT(1)) become "congestion experienced".
  double burst = 0;                 ///< Begins a burst of losses, in which each direction loses ...
  std::uint32_t burst_packets = 8;  ///< ... 1 to this many packets in a row.
  Duration jitter{};                ///< Up to this much extra delay; keeps the order.
  Duration reorder_delay = std::chrono::microseconds(50);
};

/// A time in which nothing gets through: from everybody to everybody (a blackout), or between two nodes in one
/// direction (a partition; two of them cut both directions).
struct Outage {
  Instant begin, end;     ///< Packets sent in [begin, end) are lost.
  NodeId from = kNoNode;  ///< kNoNode: from anybody.
  NodeId to = kNoNode;    ///< kNoNode: to anybody.
};

struct LinkConfig {
  Duration delay = std::chrono::microseconds(5);
  Duration spacing{};       ///< Packets of one direction arrive at least this far apart: the inverse of a packet rate.
  std::uint32_t queue = 0;  ///< With spacing: so many packets of a direction may wait, more are lost. 0: any number.
  Impairments impairments{};
  std::vector<Outage> outages{};
};

/// Decides when, how often and how changed each packet arrives. Deterministic for a seed and a sequence of packets.
class Link {
 public:
  Link(LinkConfig config, std::uint64_t seed);

  LinkConfig& config() { return config_; }
  void set_filter(Filter filter) { filter_ = std::move(filter); }

  /// Applies filter and impairments to `packet`, which travels to `packet.to`. Returns the arrival times of its copies,
  /// none when it is lost; valid until the next call.
  const std::vector<Instant>& transmit(Packet& packet, Instant now);
  /// When the last packet sent so far will have arrived.
  Instant empty_at() const { return empty_at_; }

 private:
  /// One direction between two nodes.
  struct Direction {
    Instant last_arrival{};        ///< Keeps the direction in order.
    std::uint32_t burst_left = 0;  ///< Packets that the current burst will still take.
  };
  Direction& direction(NodeId from, NodeId to);
  bool in_outage(NodeId from, NodeId to, Instant now) const;
  bool in_burst(Direction& direction);
  void corrupt(Packet& packet);

  LinkConfig config_;
  Filter filter_;
  Random loss_, duplicate_, reorder_, corrupt_, ecn_, jitter_, burst_;
  std::vector<std::vector<Direction>> directions_;  ///< By sender and receiver.
  std::vector<Instant> arrivals_;
  Instant empty_at_{};
};

}  // namespace uroce::engine::sim
