// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/habits.h"

#include <algorithm>

#include "proto/rules/rules.h"

namespace uroce::explain {

void Habits::tell(const Packet& packet, Told& told) {
  for (const auto& breach : packet.breaches) {
    const bool breaks = proto::rules::breaks_standard(breach.rule);
    Note note{breaks ? Severity::kBreach : Severity::kUnusual, "header", breach.text, false};
    const auto known =
        std::find_if(all_.begin(), all_.end(), [&](const Habit& habit) { return habit.note.text == note.text; });
    if (known != all_.end()) {
      ++known->packets;
      note.repeated = true;
    } else if (all_.size() < kMost) {
      all_.push_back({note, packet.place, 1});
    }
    told.notes.push_back(std::move(note));
  }
}

}  // namespace uroce::explain
