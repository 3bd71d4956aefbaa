// SPDX-License-Identifier: Apache-2.0
#include "engine/os/interruption.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>

namespace uroce::engine {
namespace {

/// What a thread brings upon itself: such a handler runs in the midst of work, not of a sleep.
bool is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP;
}

}  // namespace

bool handlers_restart() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action {};
    if (is_fault(number) || ::sigismember(&blocked, number) == 1 || ::sigaction(number, nullptr, &action) != 0)
      continue;
    const bool has_handler = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (has_handler && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

int sleep_until_readable(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  while (::poll(&polled, 1, -1) < 0) {
    if (errno != EINTR) return errno;
    if (!handlers_restart()) return EINTR;
  }
  return 0;
}

}  // namespace uroce::engine
