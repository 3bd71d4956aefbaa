// SPDX-License-Identifier: Apache-2.0
// Text in fields of fixed size, in memory that other processes read.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace uroce::record {

/// The field is all zeros before; what does not fit is cut off, where a character of UTF-8 begins.
template <std::size_t N>
void set_text(std::array<char, N>& field, const std::string& text) {
  std::size_t size = std::min(text.size(), N - 1);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::memcpy(field.data(), text.data(), size);
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.data(), ::strnlen(field.data(), N)};
}

}  // namespace uroce::record
