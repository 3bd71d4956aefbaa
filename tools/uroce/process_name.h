// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <fstream>
#include <string>
#include <string_view>

namespace uroce::tools {

/// A process chooses its name: what would control a terminal becomes '?'.
inline std::string without_controls(std::string name) {
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);  // A char has no sign on ARM.
    if (byte < ' ' || byte == 0x7F) c = '?';
  }
  return name;
}

/// The name of process `pid`, "" if there is none.
inline std::string process_name(std::string_view pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return without_controls(name);
}

}  // namespace uroce::tools
