// SPDX-License-Identifier: Apache-2.0
// Bytes of the TCP exchange: every number in big-endian order, written and read field by field.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bytes.h"

namespace uroce::tools {

class WireWriter {
 public:
  template <std::unsigned_integral T>
  WireWriter& put(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_be<sizeof(T)>(bytes_.data() + at, value);
    return *this;
  }
  WireWriter& put(bool) = delete;  ///< Say which integer it becomes.
  WireWriter& put_bytes(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Reads what WireWriter wrote. Reading past the end gives zeros and makes complete() false.
class WireReader {
 public:
  explicit WireReader(Bytes bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    if (rest_.size() < sizeof(T)) {
      short_ = true;
      rest_ = {};
      return 0;
    }
    const auto value = static_cast<T>(load_be<sizeof(T)>(rest_.data()));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  void get_bytes(MutBytes out) {
    if (rest_.size() < out.size()) {
      short_ = true;
      rest_ = {};
      return;
    }
    std::copy_n(rest_.begin(), out.size(), out.begin());
    rest_ = rest_.subspan(out.size());
  }
  Bytes rest() const { return rest_; }
  /// Everything was there, and nothing is left over.
  bool complete() const { return !short_ && rest_.empty(); }

 private:
  Bytes rest_;
  bool short_ = false;
};

}  // namespace uroce::tools
