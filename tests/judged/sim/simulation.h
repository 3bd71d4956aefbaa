// SPDX-License-Identifier: Apache-2.0
// One run: builds the scenario of a seed, drives the world, judges.
#pragma once

#include <functional>
#include <optional>

#include "engine/sim/world.h"
#include "tests/judged/sim/scenario.h"
#include "tests/judged/sim/tally.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/model/types.h"

namespace uroce::simulator {

/// What to break on purpose, to see that breaking it is noticed and reported as it should.
enum class Sabotage : std::uint8_t { kNone, kCrash, kLiveness, kCorrectness };

struct RunOptions {
  /// Sees every packet, at every point of its way.
  engine::sim::Tap on_packet;
  Sabotage sabotage = Sabotage::kNone;
  /// Lies, to test the judges: about packets on their way, about completions as they are polled.
  engine::sim::Filter filter;
  std::function<void(nic::Completion&)> tamper;
};

struct RunResult {
  std::optional<Violation> violation;
  std::uint64_t packets = 0;  ///< Sent.
  Duration time{};            ///< Virtual.
  Tally tally;
};

RunResult run(const Scenario& scenario, const RunOptions& options);

}  // namespace uroce::simulator
