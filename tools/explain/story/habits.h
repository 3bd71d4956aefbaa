// SPDX-License-Identifier: Apache-2.0
// What a NIC does in many packets, and what is worth one sentence only: MigReq in each packet of hardware, say.
#pragma once

#include <string>
#include <vector>

#include "tools/explain/story/told.h"

namespace uroce::explain {

struct Habit {
  Note note;
  Place first;
  std::uint64_t packets = 0;
};

/// One sender's.
class Habits {
 public:
  /// Notes what the headers of a packet break by themselves; what was told of an earlier packet is marked as repeated.
  void tell(const Packet& packet, Told& told);
  /// In the order in which they came.
  const std::vector<Habit>& all() const { return all_; }

 private:
  static constexpr std::size_t kMost = 16;
  std::vector<Habit> all_;
};

}  // namespace uroce::explain
