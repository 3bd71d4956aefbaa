// SPDX-License-Identifier: Apache-2.0
// Objects under small numbers: always the lowest that is free, as the kernel gives them. Libraries use them as indices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace uroce::rdmacm {

/// `T` has a member `number`.
template <class T>
class Numbered {
 public:
  /// bad_alloc: nothing has changed.
  T& add() {
    auto made = std::make_unique<T>();
    while (free_ < all_.size() && all_[free_] != nullptr) ++free_;
    if (free_ == all_.size()) all_.emplace_back();
    made->number = static_cast<std::uint32_t>(free_);
    return *(all_[free_++] = std::move(made));
  }
  T* find(std::uint32_t number) const { return number < all_.size() ? all_[number].get() : nullptr; }
  /// Takes no memory.
  void remove(std::uint32_t number) {
    all_[number].reset();
    free_ = std::min<std::size_t>(free_, number);
  }
  template <class Do>
  void for_each(Do what) const {
    for (const auto& one : all_) {
      if (one) what(*one);
    }
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::size_t free_ = 0;  ///< None is free below.
};

}  // namespace uroce::rdmacm
