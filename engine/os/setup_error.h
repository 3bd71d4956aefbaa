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

}  // namespace uroce::engine
