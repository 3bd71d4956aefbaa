// SPDX-License-Identifier: Apache-2.0
// Which faults hold in this process: those of UROCE_FAULTS, until somebody who controls the process changes them.
#pragma once

#include <string>

#include "engine/faults/spec.h"

namespace uroce::ibv {

/// The list of faults for a NIC that is opened now, as text.
std::string faults_wanted();

/// From now on `text`, which means `spec`: for NICs that are opened later, and for the faults of calls and of
/// connections, which count from now. For one thread at a time.
void want_faults(const std::string& text, const engine::faults::FaultSpec& spec);

}  // namespace uroce::ibv
