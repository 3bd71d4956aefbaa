// SPDX-License-Identifier: Apache-2.0
// A value or an error. std::expected is C++23; this is the part of it that uroce needs.
#pragma once

#include <utility>
#include <variant>

#include "proto/base/check.h"

namespace uroce {

/// Wraps an error so that Result<T, E> also works where T and E are the same type.
template <class E>
struct Err {
  E value;
};
template <class E>
Err(E) -> Err<E>;

/// Holds either a T or an E. Reading the one that is not there aborts.
template <class T, class E>
class [[nodiscard]] Result {
 public:
  constexpr Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  constexpr Result(Err<E> error) : v_(std::in_place_index<1>, std::move(error.value)) {}

  constexpr explicit operator bool() const { return v_.index() == 0; }
  constexpr bool ok() const { return v_.index() == 0; }
  constexpr T& operator*() {
    UROCE_ASSERT(ok());
    return std::get<0>(v_);
  }
  constexpr const T& operator*() const {
    UROCE_ASSERT(ok());
    return std::get<0>(v_);
  }
  constexpr T* operator->() { return &**this; }
  constexpr const T* operator->() const { return &**this; }
  constexpr const E& error() const {
    UROCE_ASSERT(!ok());
    return std::get<1>(v_);
  }

 private:
  std::variant<T, E> v_;
};

}  // namespace uroce
