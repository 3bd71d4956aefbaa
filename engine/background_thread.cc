#include "engine/background_thread.h"

#include <pthread.h>
#include <signal.h>

namespace uroce::engine {

std::unique_ptr<std::thread> start_background_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // A new thread inherits the mask.
  auto thread = std::make_unique<std::thread>(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread->native_handle(), "uroce");
  return thread;
}

}  // namespace uroce::engine
