// SPDX-License-Identifier: Apache-2.0
// 24-bit packet sequence numbers with serial arithmetic (IBTA Vol 1, 9.7.1).
#pragma once

#include <cstdint>

namespace uroce::proto {

/// A PSN. There is no operator<: order only exists relative to a window, as a signed distance.
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xFFFFFF;

  constexpr Psn() = default;
  /// Takes the low 24 bits of `value`, as rxe and hardware do.
  constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}

  constexpr std::uint32_t value() const { return value_; }
  constexpr Psn operator+(std::uint32_t n) const { return Psn{value_ + n}; }
  constexpr Psn operator-(std::uint32_t n) const { return Psn{value_ - n}; }
  constexpr Psn& operator++() { return *this = *this + 1; }
  friend constexpr bool operator==(Psn, Psn) = default;
  /// Signed distance a - b in [-2^23, 2^23).
  friend constexpr std::int32_t operator-(Psn a, Psn b) {
    return static_cast<std::int32_t>((a.value_ - b.value_) << 8) >> 8;
  }

 private:
  std::uint32_t value_ = 0;
};

static_assert(Psn{0} - Psn{0xFFFFFF} == 1);
static_assert(Psn{0xFFFFFF} + 1 == Psn{0});
static_assert(Psn{0x800000} - Psn{0} == -0x800000);
static_assert(Psn{0x1000001} == Psn{1});

}  // namespace uroce::proto
