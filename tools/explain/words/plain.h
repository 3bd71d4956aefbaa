// SPDX-License-Identifier: Apache-2.0
// Texts of captures and recordings come from anybody: a terminal must get nothing of them that it would obey.
#pragma once

#include <string>
#include <string_view>

namespace uroce::explain {

/// The same, but for control characters and bytes that are no UTF-8: as \x1b.
std::string plain(std::string_view text);

}  // namespace uroce::explain
