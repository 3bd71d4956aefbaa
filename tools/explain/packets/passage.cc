// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/passage.h"

#include "tools/explain/packets/twins.h"

namespace uroce::explain {

bool Passage::is_on_its_way(const Packet& packet) {
  if (packet.direction == Direction::kUnknown) return false;
  if (first_.size() >= kMost) first_.clear();
  const Sighting now{packet.tap, packet.direction, packet.time_ns};
  const auto [known, is_new] = first_.try_emplace(identity_of(packet), now);
  Sighting& first = known->second;
  if (is_new) return false;
  if (packet.time_ns - first.time_ns <= kLongest) {
    if (first.direction == Direction::kReceived && packet.direction == Direction::kSent) return true;
    if (first.direction == packet.direction && first.tap != packet.tap) return true;
    if (first.direction != packet.direction) return false;  // Here is the other end.
  }
  first = now;  // It was sent again.
  return false;
}

}  // namespace uroce::explain
