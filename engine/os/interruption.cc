// SPDX-License-Identifier: Apache-2.0
#include "engine/os/interruption.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>

#include "engine/os/fault_signals.h"
#include "engine/os/poll_all.h"

namespace uroce::engine {

bool handlers_restart() {
  sigset_t unasked;  // Those that do not end a sleep of this thread.
  ::pthread_sigmask(SIG_SETMASK, nullptr, &unasked);
  for (const int fault : kFaultSignals) ::sigaddset(&unasked, fault);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action {};
    if (::sigismember(&unasked, number) == 1 || ::sigaction(number, nullptr, &action) != 0) continue;
    const bool has_handler = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (has_handler && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

int sleep_until_readable(int fd, const std::function<bool()>& is_ready) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const Asleep asleep;
    if (is_ready() || poll_all({&polled, 1}, nullptr) >= 0) return 0;
    if (errno != EINTR) return errno;
    if (!handlers_restart()) return EINTR;
  }
}

}  // namespace uroce::engine
