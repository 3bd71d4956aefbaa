// SPDX-License-Identifier: Apache-2.0
// What one thread wakes another by.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "engine/os/fd.h"

namespace uroce::engine {

/// An eventfd: readable from signal() until clear().
class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  /// Any thread; async-signal-safe.
  void signal() const {
    const int saved = errno;  // May be called from a signal handler.
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
    errno = saved;
  }
  void clear() const {
    std::uint64_t times_signalled = 0;
    [[maybe_unused]] const ssize_t n = ::read(fd_.get(), &times_signalled, sizeof times_signalled);
  }
  int fd() const { return fd_.get(); }
  /// Whether the system had a descriptor for it.
  bool valid() const { return static_cast<bool>(fd_); }
  /// Why not, as errno.
  int error() const { return error_; }
  void close() { fd_.reset(); }

 private:
  Fd fd_;
  int error_ = fd_ ? 0 : errno;
};

}  // namespace uroce::engine
