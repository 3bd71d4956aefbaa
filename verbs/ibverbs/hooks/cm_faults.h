// SPDX-License-Identifier: Apache-2.0
// Faults of connection management that UROCE_FAULTS asks for (cm.reject=no_listener#2), counted per process.
#pragma once

#include "engine/faults/cm_faults.h"

namespace uroce::ibv {

/// Those that hold now. Never destroyed: programs disconnect from destructors, and other threads may still use those
/// that were replaced.
engine::faults::CmFaults& cm_faults();

/// From now on those of `spec`. For one thread at a time.
void replace_cm_faults(const engine::faults::FaultSpec& spec);

/// Those of `more` besides. For one thread at a time.
void add_cm_faults(const engine::faults::FaultSpec& more);

}  // namespace uroce::ibv
