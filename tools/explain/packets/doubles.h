// SPDX-License-Identifier: Apache-2.0
// One capture without directions that has each packet twice: both ends wrote it, or it was taken on several interfaces.
// Finds the hosts whose packets are so, and which sighting is the sender's: the earlier one. Packets may be there twice
// in one direction only: a mirror does that, and so do both ends of a way back on which everything is lost.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

class Doubles {
 public:
  /// From the beginning of a capture.
  void learn(const std::deque<Packet>& packets);
  bool any() const { return !ways_.empty(); }
  /// The packets that go its way are there twice, and the capture does not say which sighting is which.
  bool has(const Packet& packet) const;
  /// What is known of packets that go its way, and are there once.
  enum class Single : std::uint8_t { kLost, kProbablyLost, kNothing };
  Single single(const Packet& packet) const;

  /// What a sighting and those of the same packet after it are (times in ns, in order; the first one is not known yet).
  struct Verdict {
    bool arrived = false;       ///< The second one is the receiver's; else the packet was lost on the way ...
    bool copy_arrived = false;  ///< ... and the third one as well: the network has made a copy.
  };
  /// `one_sending`: all of them have the same IPv4 Identification, which is not zero.
  Verdict judge(std::span<const std::int64_t> times, bool one_sending) const;

 private:
  using Host = std::array<std::uint8_t, 16>;
  using Hosts = std::pair<Host, Host>;
  static Hosts hosts_of(const Packet& packet);
  static Hosts way_of(const Packet& packet) { return {packet.source.raw, packet.destination.raw}; }

  std::set<Hosts> ways_;       ///< From, to: each packet is there twice.
  std::set<Hosts> opposite_;   ///< Only the other way is so ...
  std::set<Hosts> unheard_;    ///< ... and what went this way has probably not arrived.
  std::int64_t usual_ns_ = 0;  ///< Between the two sightings; few take longer.
};

}  // namespace uroce::explain
