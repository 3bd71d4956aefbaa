// SPDX-License-Identifier: Apache-2.0
// Objects under small numbers: always the lowest that is free, as the kernel gives them. Libraries use them as indices.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace uroce::rdmacm {

/// `T` has a member `number`.
template <class T>
class Numbered {
 public:
  T& add() {
    auto made = std::make_unique<T>();
    T& one = *made;
    if (free_.empty()) {
      one.number = static_cast<std::uint32_t>(all_.size());
      all_.push_back(std::move(made));
    } else {
      one.number = *free_.begin();
      free_.erase(free_.begin());
      all_[one.number] = std::move(made);
    }
    return one;
  }
  T* find(std::uint32_t number) const { return number < all_.size() ? all_[number].get() : nullptr; }
  void remove(std::uint32_t number) {
    all_[number].reset();
    free_.insert(number);
  }
  template <class Do>
  void for_each(Do what) const {
    for (const auto& one : all_) {
      if (one) what(*one);
    }
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::set<std::uint32_t> free_;
};

}  // namespace uroce::rdmacm
