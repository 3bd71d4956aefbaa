// SPDX-License-Identifier: Apache-2.0
// One connection whose PSNs go all the way round: what a QP remembers of a PSN must not be taken for what comes 2^24
// packets later. Some 17 million packets, so these are runs of their own (uroce-sim --wrap).
#pragma once

#include "tests/judged/sim/scenario.h"

namespace uroce::simulator {

Scenario draw_wrap_scenario(std::uint64_t seed);

}  // namespace uroce::simulator
