// SPDX-License-Identifier: Apache-2.0
// The part of a scenario that is about services without acknowledgements, and about shared receive queues. Drawn from a
// stream of its own.
#pragma once

#include "tests/judged/sim/scenario.h"

namespace uroce::simulator {

/// Adds UC connections, UD QPs and SRQs to a scenario that has hosts and RC connections, some of which get an SRQ.
void add_unacked(const engine::sim::Random& random, Scenario& scenario);
std::string describe_unacked(const Scenario& scenario);

}  // namespace uroce::simulator
