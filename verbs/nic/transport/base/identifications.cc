// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/transport/base/identifications.h"

#include <new>

namespace uroce::nic {

bool Identifications::is_near(const Counter& counter, std::uint16_t id, Instant now) const {
  if (packet_time_.count() == 0) return true;
  const std::int64_t distance = static_cast<std::uint16_t>(id - counter.furthest);
  const std::int64_t ahead = kAhead + (now - counter.at) / packet_time_;
  return distance <= ahead || distance >= 0x10000 - kBehind;
}

bool Identifications::is_plausible(const proto::Path& path, std::uint16_t id, Instant now) {
  const auto found = counters_.find(addresses_of(path));
  if (found == counters_.end()) return true;
  Counter& counter = found->second;
  if (counter.jumps >= kJumps || is_near(counter, id, now)) return true;
  return std::exchange(counter.has_refused, true);
}

void Identifications::learn(const proto::Path& path, std::uint16_t id, Instant now) {
  if (counters_.size() >= kMost) counters_.clear();
  std::pair<decltype(counters_)::iterator, bool> counted;
  try {
    counted = counters_.try_emplace(addresses_of(path));
  } catch (const std::bad_alloc&) {
    return;
  }
  const auto [place, is_new] = counted;
  Counter& counter = place->second;
  counter.has_refused = false;
  if (!is_new && counter.jumps < kJumps) {
    const bool near = is_near(counter, id, now);
    counter.near = near ? counter.near + 1 : 0;
    if (!near) ++counter.jumps;
    if (counter.near >= kNear) counter.jumps = 0;
  }
  const bool overtaken = !is_new && static_cast<std::uint16_t>(counter.furthest - id) <= kBehind;
  if (!overtaken) counter.furthest = id;
  counter.at = now;
}

}  // namespace uroce::nic
