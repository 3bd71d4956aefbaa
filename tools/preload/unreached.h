// SPDX-License-Identifier: Apache-2.0
// Programs that the loader preloads nothing for.
#pragma once

#include <optional>
#include <string>

namespace uroce::tools {

/// Why `command`, found as a shell finds it, will not load what LD_PRELOAD names, as one sentence with what to do.
/// Nothing when it will, or when that can't be seen from its file: a script, or a file that nobody may read.
std::optional<std::string> why_unreached(const std::string& command);

}  // namespace uroce::tools
