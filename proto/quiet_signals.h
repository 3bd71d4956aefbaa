// SPDX-License-Identifier: Apache-2.0
// Writing without the signals that a write may raise.
#pragma once

#include <sys/types.h>

#include <csignal>

#include "proto/bytes.h"

namespace uroce::proto {

/// While it lives, writes of this thread raise neither SIGPIPE (nobody reads a pipe any more) nor SIGXFSZ (a file has
/// reached RLIMIT_FSIZE): they only fail, with EPIPE or EFBIG. Both signals would end a program that has no handler,
/// and mean nothing to one that has. What was pending before stays pending.
class QuietSignals {
 public:
  QuietSignals();
  ~QuietSignals();
  QuietSignals(const QuietSignals&) = delete;
  QuietSignals& operator=(const QuietSignals&) = delete;

 private:
  sigset_t raised_;  ///< Those of the two that were not pending before.
  sigset_t former_mask_;
};

/// As write(2), to a pipe, without SIGPIPE: one system call from Linux 6.18 on, five before.
ssize_t write_quietly(int descriptor, Bytes bytes);

}  // namespace uroce::proto
