// SPDX-License-Identifier: Apache-2.0
// For work that must not be left halfway by a thread that is cancelled.
#pragma once

#include <pthread.h>

namespace uroce {

/// While it lives, pthread_cancel() of this thread waits.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace uroce
