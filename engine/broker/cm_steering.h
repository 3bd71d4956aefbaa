// SPDX-License-Identifier: Apache-2.0
// Which of the processes that share an address gets which management packet. The kernel chooses the socket by a program
// that all of them may replace: answers go to the slot in the communication ID that they are for, and requests to the
// process that listens for their service. Names of Unix sockets say which process that is: all processes see them, and
// they end with the process that has them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/os/fd.h"
#include "proto/base/result.h"
#include "proto/path.h"

namespace uroce::engine {

/// Requests for a service, and the slot that gets them.
struct CmRoute {
  std::uint32_t service = 0;  ///< Low half of the service ID: port space and port.
  std::uint8_t slot = 0;
  friend bool operator==(const CmRoute&, const CmRoute&) = default;
};

/// The routes that the names in `listing`, which is in the format of /proc/net/unix, stand for at `local`.
std::vector<CmRoute> parse_cm_routes(std::string_view listing, const proto::Gid& local);

/// Has requests for `service` at `local` come to `slot` until the result is closed and somebody steers anew. `socket`:
/// that of any slot. EADDRINUSE: another one listens; ENOBUFS: too many do; EAGAIN: others were busy for too long;
/// others, of /proc/net/unix: it can't be read, so that nobody knows who listens.
Result<Fd, int> claim_service(const proto::Gid& local, std::uint32_t service, std::uint8_t slot, int socket);

/// Steers by who listens now. Requests that nobody listens for go to a process that listens at the same port of another
/// port space (cm/latecomers.h: it may be about to), or else to `slot`, which refuses them. 0, or an errno value.
int steer_management(const proto::Gid& local, std::uint8_t slot, int socket);

}  // namespace uroce::engine
