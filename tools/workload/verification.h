// SPDX-License-Identifier: Apache-2.0
// What --verify found: how much was looked at, what was wrong, and the first wrong thing in words.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::tools {

struct Verification {
  std::uint64_t checked_messages = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t wrong_messages = 0;
  std::string first_error;

  bool ok() const { return wrong_messages == 0; }
  void passed(std::uint64_t bytes) {
    ++checked_messages;
    checked_bytes += bytes;
  }
  void failed(std::uint64_t bytes, const std::string& what) {
    passed(bytes);
    ++wrong_messages;
    if (first_error.empty()) first_error = what;
  }
  void add(const Verification& other) {
    checked_messages += other.checked_messages;
    checked_bytes += other.checked_bytes;
    wrong_messages += other.wrong_messages;
    if (first_error.empty()) first_error = other.first_error;
  }
};

}  // namespace uroce::tools
