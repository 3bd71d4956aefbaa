// SPDX-License-Identifier: Apache-2.0
// One capture without directions that has each packet twice: both ends wrote it, or it was taken on several interfaces.
// Finds the hosts whose packets are so, and which sighting is the sender's: the earlier one.
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
  bool any() const { return !hosts_.empty(); }
  /// The packets between its two hosts are there twice, and the capture does not say which way they went.
  bool has(const Packet& packet) const;

  /// What a sighting and those of the same packet after it are (times in ns, in order; the first one is not known yet).
  struct Verdict {
    bool arrived = false;       ///< The second one is the receiver's; else the packet was lost on the way ...
    bool copy_arrived = false;  ///< ... and the third one as well: the network has made a copy.
  };
  /// `one_sending`: all of them have the same IPv4 Identification, which is not zero.
  Verdict judge(std::span<const std::int64_t> times, bool one_sending) const;

 private:
  using Hosts = std::pair<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>>;
  static Hosts hosts_of(const Packet& packet);

  std::set<Hosts> hosts_;
  std::int64_t usual_ns_ = 0;  ///< Between the two sightings; few take longer.
};

}  // namespace uroce::explain
