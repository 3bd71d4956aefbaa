// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/plain.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "proto/base/utf8.h"

namespace uroce::explain {
namespace {

/// One that is UTF-8. Terminals obey U+0080 to U+009F as well.
bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<std::uint8_t>(character[1]) < 0xA0;
}

}  // namespace

std::string plain(std::string_view text) {
  const auto is_harmless = [](char c) { return c >= 0x20 && c < 0x7F; };
  if (std::all_of(text.begin(), text.end(), is_harmless)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t size = proto::utf8_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (size != 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char byte : character) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(byte));
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace uroce::explain
