// SPDX-License-Identifier: Apache-2.0
// Whether the NICs of two hosts can reach each other at all.
#pragma once

#include <string>

#include "tools/control/control.h"
#include "tools/control/messages.h"

namespace uroce::tools {

/// A NIC on a loopback address reaches nobody on another host, and nobody there reaches it: throws Failure then, which
/// says what helps. `how`: what goes before the address to give a NIC another, as "pass --addr ".
void check_gids_reach(const PeerMetadata& local, const PeerMetadata& peer, const Control& control,
                      const std::string& how);

}  // namespace uroce::tools
