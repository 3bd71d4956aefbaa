// SPDX-License-Identifier: Apache-2.0
// Which of the processes that share an address gets which management packet. The kernel chooses the socket by a program
// that all of them may replace: answers go to the slot in the communication ID that they are for, and requests to the
// process that listens for their service. Claims say which process that is (claims.h).
#pragma once

#include <cstdint>

#include "engine/os/fd.h"
#include "engine/os/setup_error.h"
#include "proto/base/result.h"
#include "proto/path.h"

namespace uroce::engine {

/// Has requests for `service` come to `slot` until the result is closed and somebody steers anew. `claims`: the file of
/// the address (claims.h); `socket`: that of any slot. EADDRINUSE: another one listens; ENOBUFS: too many do; EAGAIN:
/// others were busy for too long; others, of /proc: without it nothing can be claimed.
Result<Fd, int> claim_service(int claims, std::uint32_t service, std::uint8_t slot, int socket);

/// Steers by who listens now. Requests that nobody listens for go to a process that listens at the same port of another
/// port space (cm/latecomers.h: it may be about to), or else to `slot`, which refuses them. 0, or an errno value.
int steer_management(int claims, std::uint8_t slot, int socket);

/// Why steer_management() failed at `local`, and what to do.
SetupError steering_failed(const proto::Gid& local, int error);

}  // namespace uroce::engine
