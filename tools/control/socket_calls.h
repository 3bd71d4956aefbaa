// SPDX-License-Identifier: Apache-2.0
// The calls on sockets, for TCP and for rsockets: librdmacm's streams, which look like TCP and run over an RC queue
// pair that RDMA CM connects.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>

namespace uroce::tools {

struct SocketCalls {
  const char* name;  ///< For people: what a port is one of.
  /// A stream socket for addresses of `family` that does not block.
  int (*open)(int family);
  int (*bind)(int, const sockaddr*, socklen_t);
  int (*listen)(int, int backlog);
  /// The accepted one does not block either.
  int (*accept)(int, sockaddr*, socklen_t*);
  int (*connect)(int, const sockaddr*, socklen_t);
  ssize_t (*send)(int, const void*, std::size_t, int flags);
  ssize_t (*recv)(int, void*, std::size_t, int flags);
  int (*shutdown)(int, int how);
  int (*close)(int);
  int (*getsockname)(int, sockaddr*, socklen_t*);
  int (*getsockopt)(int, int level, int name, void*, socklen_t*);
  int (*setsockopt)(int, int level, int name, const void*, socklen_t);
  /// Takes other descriptors as well.
  int (*poll)(pollfd*, nfds_t, int timeout_ms);
};

extern const SocketCalls kTcpCalls, kRdmaCalls;

}  // namespace uroce::tools
