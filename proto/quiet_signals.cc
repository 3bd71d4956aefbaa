// SPDX-License-Identifier: Apache-2.0
#include "proto/quiet_signals.h"

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

}  // namespace uroce::proto
