// SPDX-License-Identifier: Apache-2.0
// What this host has set for sockets, and RDMA CM goes by.
#pragma once

#include "verbs/rdmacm/ports.h"

namespace uroce::rdmacm {

/// Ephemeral and privileged ports, and a random seed.
PortTable::Config port_config();
/// Whether an IPv6 wildcard is none for IPv4, unless a program says so.
bool is_v6_only_by_default();

}  // namespace uroce::rdmacm
