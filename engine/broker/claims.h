// SPDX-License-Identifier: Apache-2.0
// Which of the processes that share an address listens for what. A claim is a lock on one byte of a file that only
// these processes have: it has no name, and comes with the lease. So no other user can claim anything, or see who does.
// The kernel ends claims with their process, however it ends.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/os/fd.h"
#include "proto/base/result.h"

namespace uroce::engine {

/// Requests for a service, and the slot that gets them.
struct CmRoute {
  std::uint32_t service = 0;  ///< Low half of the service ID: port space and port.
  std::uint8_t slot = 0;
  friend bool operator==(const CmRoute&, const CmRoute&) = default;
};

/// A file for the claims of one address. The error is an errno value.
Result<Fd, int> make_claims();

/// All routes that are claimed in `file`, in order. The error is an errno value.
Result<std::vector<CmRoute>, int> claimed_routes(int file);

/// Claims `route` until the result is closed, in this process and in its children. EADDRINUSE: this very route is
/// claimed.
Result<Fd, int> claim_route(int file, const CmRoute& route);

/// One process at a time looks and steers, until the result is closed. EAGAIN: others were busy for too long.
Result<Fd, int> lock_steering(int file);

}  // namespace uroce::engine
