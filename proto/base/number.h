// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace uroce {

/// All of `text` as a number: digits, behind a '-' where `T` has a sign. Nothing when there is anything else, or the
/// number does not fit.
template <std::integral T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The same; hexadecimal after "0x" or "0X".
template <std::unsigned_integral T>
std::optional<T> parse_decimal_or_hex(std::string_view text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  return is_hex ? parse_number<T>(text.substr(2), 16) : parse_number<T>(text);
}

}  // namespace uroce
