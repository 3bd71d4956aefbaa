// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/borrowed_memory.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace uroce::preload {
namespace {

/// Whose memory this is, once we are loaded.
constinit std::atomic<pid_t> owner = 0;
void note_owner() { owner = ::getpid(); }
[[maybe_unused]] const int kWatchesFork = [] {
  note_owner();
  return ::pthread_atfork(nullptr, nullptr, note_owner);
}();

}  // namespace

bool borrows_memory() { return owner != 0 && owner != ::getpid(); }

}  // namespace uroce::preload
