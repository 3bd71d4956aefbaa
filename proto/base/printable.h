// SPDX-License-Identifier: Apache-2.0
// Texts of captures, recordings and processes come from anybody: a terminal must get nothing of them that it would
// obey.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/utf8.h"

namespace uroce::proto {

/// Whether a character, which is UTF-8, is one that terminals obey. They obey U+0080 to U+009F as well.
inline bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<std::uint8_t>(character[1]) < 0xA0;
}

/// The same text, but for control characters and bytes that are no UTF-8: as \x1b.
inline std::string printable(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; })) return std::string(text);  // Mostly.
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (size != 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) {
        const auto byte = static_cast<std::uint8_t>(c);
        out.append("\\x").append({kDigits[byte >> 4], kDigits[byte & 0xF]});
      }
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace uroce::proto
