// SPDX-License-Identifier: Apache-2.0
// For calls that start threads or processes of their own.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <span>

namespace uroce {

/// While it lives, no signal comes to this thread, `but` for some; nor to threads and processes that it starts, which
/// inherit that.
class NoSignals {
 public:
  explicit NoSignals(std::span<const int> but = {}) {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int signal : but) ::sigdelset(&blocked, signal);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace uroce
