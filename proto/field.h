// SPDX-License-Identifier: Apache-2.0
// A header field as a type, in the specification's own coordinates: bit offset as the drawing shows it (most
// significant bit first) and width. A gap or an overlap in a header, or reading one header's field from another's
// bytes, does not compile.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "proto/bytes.h"

namespace uroce::proto {

/// A string literal as a template argument.
template <std::size_t N>
struct Name {
  char text[N]{};
  constexpr Name(const char (&s)[N]) { std::copy_n(s, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

struct FieldInfo {
  std::string_view name;
  std::uint16_t bit;    ///< Offset from the start of the header.
  std::uint16_t width;  ///< In bits, 1..64.

  /// The field's value, for code that walks over all fields. Field<> below is the fast way.
  constexpr std::uint64_t load(const std::uint8_t* header) const {
    std::uint64_t value = 0;
    for (unsigned i = bit; i < unsigned{bit} + width; ++i) value = value << 1 | ((header[i / 8] >> (7 - i % 8)) & 1);
    return value;
  }
};

template <class H, Name kName, std::unsigned_integral T, std::uint16_t kBit, std::uint16_t kWidth>
struct Field {
  using Header = H;
  using Value = T;
  static constexpr FieldInfo info{kName.view(), kBit, kWidth};
  static constexpr std::size_t first = kBit / 8;
  static constexpr std::size_t count = (kBit % 8 + kWidth + 7) / 8;
  static constexpr unsigned shift = static_cast<unsigned>(count * 8 - kBit % 8 - kWidth);
  static constexpr std::uint64_t mask = kWidth == 64 ? ~0ULL : (1ULL << kWidth) - 1;
  static_assert(kWidth >= 1 && kWidth <= sizeof(T) * 8 && count <= 8);

  static constexpr T load(const std::uint8_t* header) {
    return static_cast<T>((load_be<count>(header + first) >> shift) & mask);
  }
  /// Stores the low `kWidth` bits of `value`; neighbouring fields keep theirs.
  static constexpr void store(std::uint8_t* header, T value) {
    std::uint64_t v = load_be<count>(header + first);
    v = (v & ~(mask << shift)) | ((std::uint64_t{value} & mask) << shift);
    store_be<count>(header + first, v);
  }
};

template <class... Fs>
struct Fields {
  static constexpr std::array<FieldInfo, sizeof...(Fs)> table{Fs::info...};
  /// True when every bit of a header of `bytes` bytes belongs to exactly one field, in wire order.
  static constexpr bool tile(std::size_t bytes) {
    std::size_t next = 0;
    for (const FieldInfo& f : table) {
      if (f.bit != next) return false;
      next += f.width;
    }
    return next == bytes * 8;
  }
};

/// Typed access to the bytes of one header. Holds no bytes of its own.
template <class H, bool kMutable>
class View {
  using Byte = std::conditional_t<kMutable, std::uint8_t, const std::uint8_t>;

 public:
  explicit constexpr View(std::span<Byte, H::kSize> bytes) : bytes_(bytes.data()) {}
  explicit constexpr View(Byte* bytes) : bytes_(bytes) {}

  // Version 14 of clang-format does not know requires clauses.
  // clang-format off
  template <class F>
    requires std::same_as<typename F::Header, H>
  constexpr typename F::Value get() const {
    return F::load(bytes_);
  }
  template <class F>
    requires(kMutable && std::same_as<typename F::Header, H>)
  constexpr const View& set(typename F::Value value) const {
    F::store(bytes_, value);
    return *this;
  }
  // clang-format on

 private:
  Byte* bytes_;
};

template <class H>
using ConstView = View<H, false>;
template <class H>
using MutView = View<H, true>;

}  // namespace uroce::proto
