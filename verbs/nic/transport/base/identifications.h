// SPDX-License-Identifier: Apache-2.0
// The IPv4 Identifications of peers that number their packets, as Soft-RoCE does: one counter for all packets between
// two addresses (docs/adr/0006). An Identification that is far from the last one is that of a damaged packet.
#pragma once

#include <map>
#include <utility>

#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::nic {

class Identifications {
 public:
  /// `packet_time`: no peer sends faster than a packet in that, so what was last seen 65536 times that ago says
  /// nothing. 0: all is plausible.
  explicit Identifications(Duration packet_time) : packet_time_(packet_time) {}

  /// Whether the next packet on `path`, whose Identification is not 0, may have this one. After a refusal the next
  /// packet is believed: what looks like damage twice is a peer that has sent much elsewhere, or counts in another way.
  bool is_plausible(const proto::Path& path, std::uint16_t id, Instant now);
  /// A packet that nobody but the peer can have sent, and that was plausible, had this Identification. Without memory,
  /// the next one will say it again.
  void learn(const proto::Path& path, std::uint16_t id, Instant now);

  /// How far a packet may be ahead of the furthest one, after bursts that were lost, and behind it: a NIC has several
  /// sockets, and reads what has waited in them one after the other. What is refused wrongly is sent again.
  static constexpr std::int64_t kAhead = 1024, kBehind = 2048;
  /// A peer that is far off so often does not count ...
  static constexpr int kJumps = 4;
  /// ... if it was near less often than this in between.
  static constexpr int kNear = 64;
  /// Pairs of addresses that are remembered; when there are more, all begin anew.
  static constexpr std::size_t kMost = 4096;

 private:
  struct Counter {
    std::uint16_t furthest = 0;
    Instant at{};  ///< When the last packet came.
    bool has_refused = false;
    int jumps = 0, near = 0;
  };
  bool is_near(const Counter& counter, std::uint16_t id, Instant now) const;

  using Addresses = std::pair<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>>;
  static Addresses addresses_of(const proto::Path& path) { return {path.source.raw, path.destination.raw}; }
  const Duration packet_time_;
  std::map<Addresses, Counter> counters_;
};

}  // namespace uroce::nic
