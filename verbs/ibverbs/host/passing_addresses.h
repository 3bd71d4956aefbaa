// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "proto/path.h"

namespace uroce::ibv {

/// The IPv6 addresses of this network namespace that hosts give up by themselves: temporary ones, which privacy
/// extensions make anew each day (RFC 8981), and deprecated ones (RFC 4862, 5.5.4). Empty when the kernel does not
/// tell.
std::vector<proto::Gid> passing_addresses();

}  // namespace uroce::ibv
