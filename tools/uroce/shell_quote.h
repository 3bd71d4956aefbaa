// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace uroce::tools {

/// `text` as one word of a POSIX shell, in single quotes.
inline std::string shell_quote(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + '\'';
}

}  // namespace uroce::tools
