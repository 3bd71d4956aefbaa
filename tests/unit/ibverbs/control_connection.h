// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "engine/os/fd.h"
#include "verbs/include/uroce/control.h"

namespace uroce::ibv::test {

/// A connection to this process, as others have one that control it; none when it takes no commands.
inline engine::Fd connect_to_control() {
  sockaddr_un address{};
  socklen_t length = 0;
  if (uroce_control_address(0, &address, &length) != 0) return {};
  engine::Fd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  return connection;
}

}  // namespace uroce::ibv::test
