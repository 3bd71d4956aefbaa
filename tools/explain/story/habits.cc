// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/habits.h"

#include <algorithm>

#include "proto/rules/rules.h"

namespace uroce::explain {
namespace {

Severity severity_of(proto::rules::Rule rule) {
  if (proto::rules::breaks_standard(rule)) return Severity::kBreach;
  return rule == proto::rules::Rule::kMigReq ? Severity::kRemark : Severity::kUnusual;
}

}  // namespace

void Habits::tell(const Packet& packet, Told& told) {
  for (const auto& breach : packet.breaches) {
    Note note{severity_of(breach.rule), "header", breach.text, false};
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
