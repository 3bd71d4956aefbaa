// SPDX-License-Identifier: Apache-2.0
// How a tool ends when something goes wrong: one sentence for people and an exit status for scripts. Thrown where the
// cause is known, caught in main(); everything in between releases what it holds in destructors.
#pragma once

#include <stdexcept>
#include <string>

namespace uroce::tools {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,        ///< The transfer failed: verification, transport error, or the peer went away.
  kExitUsage = 2,         ///< It never started: options, device, address, or a peer that does not match.
  kExitInterrupted = 130  ///< A signal asked us to stop (128 + SIGINT).
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode exit_code, const std::string& sentence) : std::runtime_error(sentence), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

}  // namespace uroce::tools
