// SPDX-License-Identifier: Apache-2.0
// epoll by number. A library that a program has loaded before ours may have functions with the names of libc's, as the
// librspreload.so of newer rdma-cores: what its epoll_create1() returns is no epoll.
#pragma once

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

#include "engine/os/fd.h"

namespace uroce::engine {

inline Fd make_epoll() { return Fd(static_cast<int>(::syscall(SYS_epoll_create1, EPOLL_CLOEXEC))); }

/// `operation`: EPOLL_CTL_ADD, EPOLL_CTL_DEL. False: errno says why not (ENOSPC: the user has too many elsewhere).
inline bool control_epoll(const Fd& epoll, int operation, int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  return ::syscall(SYS_epoll_ctl, epoll.get(), operation, fd, &event) == 0;
}

/// Waits for one event. `timeout`: null for ever. As epoll_pwait2(2), which glibc has from 2.35 on only. The kernel's
/// headers have had the number for longer.
inline int wait_epoll(int epoll, epoll_event& event, const timespec* timeout) {
  return static_cast<int>(::syscall(__NR_epoll_pwait2, epoll, &event, 1, timeout, /*sigmask=*/nullptr, std::size_t{0}));
}
/// The same without waiting, on every kernel.
inline int look_at_epoll(int epoll, epoll_event& event) {
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, epoll, &event, 1, /*timeout=*/0, /*sigmask=*/nullptr, std::size_t{0}));
}

}  // namespace uroce::engine
