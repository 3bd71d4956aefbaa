// SPDX-License-Identifier: Apache-2.0
#include "proto/quiet_signals.h"

#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace uroce::proto {

QuietSignals::QuietSignals() {
  sigset_t both, pending;
  sigemptyset(&both);
  sigemptyset(&pending);
  sigemptyset(&raised_);
  sigpending(&pending);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    sigaddset(&both, signal);
    if (sigismember(&pending, signal) == 0) sigaddset(&raised_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &both, &former_mask_);
}

QuietSignals::~QuietSignals() {
  const int error = errno;
  // The kernel sends both to the thread that wrote, before write() returns.
  const timespec now{};
  while (sigtimedwait(&raised_, nullptr, &now) > 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
  errno = error;
}

ssize_t write_quietly(int descriptor, Bytes bytes) {
  constexpr int kNoSignal = 0x100;  // RWF_NOSIGNAL of Linux 6.18.
  static std::atomic<bool> has_flag = true;
  // Neither of the two is write(), which programs have from us: it asks whether the descriptor is one of ours.
  const iovec from{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  if (has_flag.load(std::memory_order_relaxed)) {
    const ssize_t written = ::pwritev2(descriptor, &from, 1, /*offset=*/-1, kNoSignal);
    if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM)) return written;
    has_flag.store(false, std::memory_order_relaxed);
  }
  const QuietSignals quiet;
  return ::writev(descriptor, &from, 1);
}

}  // namespace uroce::proto
