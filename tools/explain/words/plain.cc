// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/plain.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace uroce::explain {
namespace {

/// How many bytes the character in front takes; 0 when it is no UTF-8.
std::size_t utf8_size(std::string_view text) {
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
    const std::size_t size = utf8_size(text);
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
