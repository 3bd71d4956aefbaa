// SPDX-License-Identifier: Apache-2.0
// Fuzz inputs as values: each command is a struct that lists its fields once, and from that list it is read from the
// fuzzer's bytes and written by make_seeds. What the bytes lack is zero, so that every input means something and short
// ones mean the ordinary case.
#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "proto/bytes.h"

namespace uroce::fuzz {

/// Reads little-endian integers from bytes; zero past their end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  template <class T>
  void operator()(T& field) {
    std::make_unsigned_t<T> value = 0;
    for (std::size_t i = 0; i < sizeof(T) && !bytes_.empty(); ++i, bytes_ = bytes_.subspan(1)) {
      value = static_cast<std::make_unsigned_t<T>>(value | std::uint64_t{bytes_.front()} << (8 * i));
    }
    field = static_cast<T>(value);
  }
  template <class T>
  T get() {
    T value{};
    (*this)(value);
    return value;
  }
  template <class Spec>
  Spec spec() {
    Spec spec;
    spec.fields(*this);
    return spec;
  }
  /// Up to `n` bytes.
  Bytes take(std::size_t n) {
    const Bytes taken = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  Bytes rest() { return take(bytes_.size()); }
  bool empty() const { return bytes_.empty(); }

 private:
  Bytes bytes_;
};

class Writer {
 public:
  template <class T>
  void operator()(T& field) {
    auto value = static_cast<std::uint64_t>(field);
    for (std::size_t i = 0; i < sizeof(T); ++i, value >>= 8) bytes.push_back(static_cast<std::uint8_t>(value));
  }
  std::vector<std::uint8_t> bytes;
};

/// One command of an input: [kind][length of the body][body]. A mutation inside one leaves the others alone.
struct Record {
  std::uint8_t kind = 0;
  Bytes body;
};

inline std::optional<Record> next_record(Reader& in) {
  if (in.empty()) return std::nullopt;
  Record record;
  record.kind = in.get<std::uint8_t>();
  record.body = in.take(in.get<std::uint8_t>());
  return record;
}

}  // namespace uroce::fuzz
