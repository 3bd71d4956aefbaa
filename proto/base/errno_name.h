// SPDX-License-Identifier: Apache-2.0
// The names of errno values. strerrorname_np() has them since glibc 2.32; our packages run on 2.31.
#pragma once

#include <optional>
#include <string_view>

namespace uroce::proto {

/// "EPERM" for EPERM; of two names of one value, that of errno(3). Empty: there is no such error.
std::string_view errno_name(int error);

/// The value of "EPERM" and all others of errno(3), "EWOULDBLOCK" and its like too.
std::optional<int> errno_named(std::string_view name);

}  // namespace uroce::proto
