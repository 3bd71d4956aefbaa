// SPDX-License-Identifier: Apache-2.0
// A line: who comes first is served first. Room is made beforehand: where packets pass, missing memory would have
// nobody to be told.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "verbs/nic/resources/wrapped.h"

namespace uroce::nic {

template <class T>
class Line {
 public:
  /// Makes room for `count` of them. bad_alloc: nothing has changed.
  void reserve(std::size_t count) {
    if (count <= ring_.size()) return;
    std::vector<T> larger(std::max(count, 2 * ring_.size()));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = at(i);
    ring_ = std::move(larger);
    head_ = 0;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return at(0); }
  void push_back(const T& one) {
    UROCE_ASSERT(size_ < ring_.size());
    at(size_++) = one;
  }
  void push_front(const T& one) {
    UROCE_ASSERT(size_ < ring_.size());
    head_ = wrapped(head_ + ring_.size() - 1, ring_.size());
    ++size_;
    at(0) = one;
  }
  void pop_front() {
    head_ = wrapped(head_ + 1, ring_.size());
    --size_;
  }
  /// Those for which `is_one(element)`.
  template <class Is>
  void erase_if(Is is_one) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!is_one(at(i))) at(kept++) = at(i);
    }
    size_ = kept;
  }
  void erase(const T& one) {
    erase_if([&one](const T& other) { return other == one; });
  }
  template <class Fn>
  void for_each(Fn fn) const {
    for (std::size_t i = 0; i < size_; ++i) fn(ring_[wrapped(head_ + i, ring_.size())]);
  }

 private:
  T& at(std::size_t i) { return ring_[wrapped(head_ + i, ring_.size())]; }

  std::vector<T> ring_;
  std::size_t head_ = 0, size_ = 0;
};

}  // namespace uroce::nic
