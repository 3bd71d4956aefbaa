// SPDX-License-Identifier: Apache-2.0
// Users at both ends of a Unix socket.
#pragma once

#include <sys/types.h>

#include <optional>

#include "proto/base/result.h"

namespace uroce::engine {

/// `user`, as the kernel calls it. Nothing when the number is the one by which it calls everybody whom this user
/// namespace does not map (65534): then others have it too.
std::optional<uid_t> known_user(uid_t user);

/// The user of this process, if it is known by a number.
std::optional<uid_t> own_user();

/// The user at the other end of a connected Unix socket, as it was when it connected or listened. Nothing when the
/// kernel does not tell, or calls it by that number.
std::optional<uid_t> peer_user(int socket);
/// The same, and errno when this process may not ask.
Result<std::optional<uid_t>, int> ask_for_peer_user(int socket);

/// The process there, as this process would name it; 0 when it can't.
pid_t peer_process(int socket);

}  // namespace uroce::engine
