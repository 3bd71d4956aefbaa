// SPDX-License-Identifier: Apache-2.0
// Which events of a NIC belong to which of its packets: the NIC's own reasons, for comments in captures.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verbs/record/ring.h"

namespace uroce::record {

/// Comments with what the NIC itself says begin like this.
inline constexpr std::string_view kNicSays = "NIC: ";

/// Listens to events in order, and says what there is to say about a packet that is sent.
class SendReasons {
 public:
  void on_event(const nic::TraceEvent& event, Phase phase);
  /// About the packet that is sent next: "NIC: sent again because of ack_timeout psn=0x105 ...", or "".
  std::string take();

 private:
  std::string next_;
  std::map<std::uint32_t, nic::TraceEvent> went_back_;  ///< By QPN: why it last did. Few QPs ever do.
};

/// A comment for each packet of `recording`, "" where there is nothing to say.
std::vector<std::string> comments(const Recording& recording);

/// An event in words: "ack_timeout qpn=0x11 psn=0x105 retries_left=6".
std::string words(const nic::TraceEvent& event);

}  // namespace uroce::record
