// SPDX-License-Identifier: Apache-2.0
// QPs in a line, each of them once. Room is made beforehand: where packets pass, missing memory would have nobody to
// be told.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "verbs/nic/resources/wrapped.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class QpLine {
 public:
  /// Makes room for `count` QPs.
  void reserve(std::size_t count) {
    if (count <= ring_.size()) return;
    std::vector<Qp*> larger(std::max(count, 2 * ring_.size()));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = at(i);
    ring_ = std::move(larger);
    head_ = 0;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Qp& front() { return *at(0); }
  void push_back(Qp& qp) {
    UROCE_ASSERT(size_ < ring_.size());
    at(size_++) = &qp;
  }
  void push_front(Qp& qp) {
    UROCE_ASSERT(size_ < ring_.size());
    head_ = wrapped(head_ + ring_.size() - 1, ring_.size());
    ++size_;
    at(0) = &qp;
  }
  void pop_front() {
    head_ = wrapped(head_ + 1, ring_.size());
    --size_;
  }
  void erase(const Qp& qp) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (at(i) != &qp) at(kept++) = at(i);
    }
    size_ = kept;
  }
  template <class Fn>
  void for_each(Fn fn) const {
    for (std::size_t i = 0; i < size_; ++i) fn(*ring_[wrapped(head_ + i, ring_.size())]);
  }

 private:
  Qp*& at(std::size_t i) { return ring_[wrapped(head_ + i, ring_.size())]; }

  std::vector<Qp*> ring_;
  std::size_t head_ = 0, size_ = 0;
};

}  // namespace uroce::nic
