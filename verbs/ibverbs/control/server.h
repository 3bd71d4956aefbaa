// SPDX-License-Identifier: Apache-2.0
// Takes the commands of others: a thread and a Unix socket, if UROCE_CONTROL asks for them (docs/adr/0021).
#pragma once

#include <string>

namespace uroce::ibv {

/// Has this process take commands from now on, if UROCE_CONTROL is on and it does not yet. "", or what is wrong.
std::string start_control();

}  // namespace uroce::ibv
