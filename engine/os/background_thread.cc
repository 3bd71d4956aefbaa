// SPDX-License-Identifier: Apache-2.0
#include "engine/os/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include "engine/os/fault_signals.h"

namespace uroce::engine {

std::unique_ptr<std::thread> start_background_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  for (const int fault : kFaultSignals) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // A new thread inherits the mask.
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>(std::move(body));
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread->native_handle(), "uroce");
  return thread;
}

}  // namespace uroce::engine
