// SPDX-License-Identifier: Apache-2.0
#include "engine/os/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include "engine/os/end_of_main.h"
#include "engine/os/fault_signals.h"
#include "engine/os/own_threads.h"

namespace uroce::engine {

std::unique_ptr<std::thread> start_background_thread(std::function<void()> body) {
  before_own_thread();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  for (const int fault : kFaultSignals) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // A new thread inherits the mask.
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>([body = std::move(body)] {
      const OwnThread own;
      body();
    });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread->native_handle(), "uroce");
  return thread;
}

}  // namespace uroce::engine
