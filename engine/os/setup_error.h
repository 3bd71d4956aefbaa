// SPDX-License-Identifier: Apache-2.0
// Why a port could not be opened, for people.
#pragma once

#include <cerrno>
#include <string>

namespace uroce::engine {

struct SetupError {
  int error = 0;         ///< errno
  std::string sentence;  ///< What failed, the likely cause, and what to change.
};

/// "EPERM (Operation not permitted)"
std::string errno_text(int error);

/// For a system call that fails where it hardly ever does. `what` can't be done without it.
SetupError call_failed(const std::string& what, const std::string& call, int error);

}  // namespace uroce::engine
