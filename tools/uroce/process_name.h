// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <fstream>
#include <string>
#include <string_view>

#include "proto/base/printable.h"

namespace uroce::tools {

/// The name of process `pid`, which it chooses itself; "" if there is none.
inline std::string process_name(std::string_view pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return proto::printable(name);
}

}  // namespace uroce::tools
