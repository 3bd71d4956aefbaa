// SPDX-License-Identifier: Apache-2.0
// Environment variables that look like settings and are none: nothing reads them.
#pragma once

#include <string>
#include <vector>

namespace uroce::tools {

struct UnknownSetting {
  std::string name;
  std::string meant;  ///< The setting whose name is like it; "" when none is.
};
/// Those that this process has.
std::vector<UnknownSetting> unknown_settings();

/// Says of each whose name is like that of a setting that it has no effect. The others may be another program's.
void warn_of_misspelt_settings(const std::string& program);

}  // namespace uroce::tools
