// Faults of connection management that UROCE_FAULTS asks for (cm.reject=no_listener#2), counted per process.
#pragma once

#include "engine/faults/cm_faults.h"

namespace uroce::ibv {

/// Never destroyed: programs disconnect from destructors.
engine::faults::CmFaults& cm_faults();

}  // namespace uroce::ibv
