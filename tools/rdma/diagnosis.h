// SPDX-License-Identifier: Apache-2.0
// Turns what a verb returned into words. errno is all that plain verbs give; a backend may know more
// (tools/backend/diagnosis.cc).
#pragma once

#include <string>
#include <string_view>

#include "tools/rdma/failure.h"

namespace uroce::tools {

/// Why the verb that just failed with `error` (an errno value) failed.
std::string verbs_error(int error);

/// Ends the tool before it has started, since `what` failed with `error` (an errno value).
[[noreturn]] inline void refuse(const std::string& what, int error) {
  throw Failure(kExitUsage, what + ": " + verbs_error(error));
}

/// What to tell a user when there is no device. `error` is the errno of ibv_get_device_list(), or 0.
std::string no_device_sentence(int error);

/// The selected backend's name.
std::string_view backend_in_use();

}  // namespace uroce::tools
