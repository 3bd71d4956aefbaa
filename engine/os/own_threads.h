// SPDX-License-Identifier: Apache-2.0
// Which threads of this process are ours. All others are the program's, and its libraries'.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace uroce::engine {

/// While it lives, the thread that made it is one of ours. A number that the kernel gives away again is not ours any
/// more, nor is any in the child of a fork.
class OwnThread {
 public:
  /// Without memory, the thread counts as the program's.
  OwnThread();
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

 private:
  std::atomic<pid_t>* place_;
};

/// Whether this is one of ours, by its number (gettid()).
bool is_own_thread(pid_t thread);

}  // namespace uroce::engine
