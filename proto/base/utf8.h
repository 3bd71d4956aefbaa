// SPDX-License-Identifier: Apache-2.0
// Characters of text that comes from anybody: names of programs, comments of captures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uroce::proto {

/// How many bytes the character takes that `text` begins with; 0 when it is no UTF-8. `text` is not empty.
inline std::size_t utf8_size(std::string_view text) {
  struct Form {
    std::uint8_t mask, mark;
    std::uint32_t least;  ///< What is smaller has a shorter form.
  };
  constexpr std::array<Form, 4> kForms{
      {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}}};
  const auto first = static_cast<std::uint8_t>(text[0]);
  for (std::size_t size = 1; size <= kForms.size(); ++size) {
    const Form& form = kForms[size - 1];
    if ((first & form.mask) != form.mark) continue;
    if (text.size() < size) return 0;
    std::uint32_t code = first & ~form.mask & 0xFFu;
    for (const char next : text.substr(1, size - 1)) {
      if ((static_cast<std::uint8_t>(next) & 0xC0) != 0x80) return 0;
      code = code << 6 | (static_cast<std::uint8_t>(next) & 0x3Fu);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < form.least || code > 0x10FFFF || surrogate ? 0 : size;
  }
  return 0;
}

}  // namespace uroce::proto
