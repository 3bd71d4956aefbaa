// SPDX-License-Identifier: Apache-2.0
// Hosts that number their IPv4 packets, as Soft-RoCE does, with a counter for each pair of addresses: the ICRC covers
// the Identification, and a UDP socket does not show it. Ours always send 0, so it is put in on the way.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "engine/sim/link.h"
#include "tests/judged/sim/scenario.h"

namespace uroce::simulator {

class Numbering {
 public:
  explicit Numbering(const Scenario& scenario);
  /// Gives the packet the Identification that is its host's next, if it has any.
  void apply(engine::sim::Packet& packet);

 private:
  std::vector<std::uint16_t> first_;  ///< By host; 0: it does not count.
  std::map<std::pair<engine::sim::NodeId, std::array<std::uint8_t, 16>>, std::uint16_t> next_;  ///< By receiver too.
};

}  // namespace uroce::simulator
