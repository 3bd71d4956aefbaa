// SPDX-License-Identifier: Apache-2.0
// For work that must not be left halfway by a thread that is cancelled.
#pragma once

#include <pthread.h>

namespace uroce {

/// While it lives, pthread_cancel() of this thread waits.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  /// One that is not `wanted` changes nothing.
  explicit NoCancellation(bool wanted) {
    if (wanted) ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  /// Of a thread that may be cancelled at any place (PTHREAD_CANCEL_ASYNCHRONOUS), and has been meanwhile, it does not
  /// return: glibc unwinds the thread's stack from here.
  ~NoCancellation() noexcept(false) {
    if (before_ != PTHREAD_CANCEL_DISABLE) ::pthread_setcancelstate(before_, nullptr);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DISABLE;
};

}  // namespace uroce
