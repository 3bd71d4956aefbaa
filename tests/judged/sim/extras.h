// SPDX-License-Identifier: Apache-2.0
// What a seed decides besides the first things: drawn from a stream of its own, so that a seed without any of these is
// what it was before they came.
#pragma once

#include "tests/judged/sim/scenario.h"

namespace uroce::simulator {

/// Adds to a scenario that is otherwise complete.
void draw_extras(Scenario& scenario, const engine::sim::Random& random);
/// What it has of them: lines, or nothing.
std::string describe_extras(const Scenario& scenario);

}  // namespace uroce::simulator
