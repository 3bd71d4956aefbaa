// SPDX-License-Identifier: Apache-2.0
#include "tools/control/socket_calls.h"

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "proto/base/no_signals.h"

namespace uroce::tools {
namespace {

int open_tcp(int family) { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int accept_tcp(int fd, sockaddr* address, socklen_t* size) {
  return ::accept4(fd, address, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/// librdmacm asks threads that it starts. One of them that a signal wakes too early ends without an answer, and the
/// call waits for ever: they inherit that signals are not for them.
template <auto kCall, class... Arguments>
int without_signals(Arguments... arguments) {
  const NoSignals guard;
  return kCall(arguments...);
}

int not_blocking(int fd) {
  if (fd >= 0) rfcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

int open_rdma(int family) { return not_blocking(rsocket(family, SOCK_STREAM, 0)); }

int accept_rdma(int fd, sockaddr* address, socklen_t* size) {
  return not_blocking(without_signals<raccept>(fd, address, size));
}

bool is_rsocket(int fd) { return rfcntl(fd, F_GETFL, 0) != -1; }

/// Sleeps on ordinary descriptors only, and looks at rsockets now and then: rpoll() of librdmacm 44, if it may sleep,
/// misses connections that a listener's own thread takes in, and may never return at all.
int poll_rdma(pollfd* fds, nfds_t count, int timeout_ms) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  std::vector<pollfd> ordinary;
  for (nfds_t i = 0; i < count; ++i) {
    if (!is_rsocket(fds[i].fd)) ordinary.push_back(fds[i]);
  }
  while (true) {
    const int ready = rpoll(fds, count, 0);
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
    if (ready != 0 || (timeout_ms >= 0 && waited.count() >= timeout_ms)) return ready;
    // After a long wait a little more does no harm, and needs fewer wake-ups.
    const auto nap = std::clamp(waited / 16, milliseconds(1), milliseconds(20));
    if (::poll(ordinary.data(), ordinary.size(), static_cast<int>(nap.count())) < 0) return -1;
  }
}

}  // namespace

const SocketCalls kTcpCalls{"TCP",  open_tcp,   ::bind,  ::listen,      accept_tcp,   ::connect,    ::send,
                            ::recv, ::shutdown, ::close, ::getsockname, ::getsockopt, ::setsockopt, ::poll};
const SocketCalls kRdmaCalls{"RDMA CM",
                             open_rdma,
                             rbind,
                             without_signals<rlisten>,
                             accept_rdma,
                             without_signals<rconnect>,
                             rsend,
                             rrecv,
                             without_signals<rshutdown>,
                             without_signals<rclose>,
                             rgetsockname,
                             rgetsockopt,
                             without_signals<rsetsockopt>,
                             poll_rdma};

}  // namespace uroce::tools
