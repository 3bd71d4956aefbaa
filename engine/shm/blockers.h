// SPDX-License-Identifier: Apache-2.0
// Those that hold everybody else back: readers whose rings are full. Who sends keeps the list; who sleeps asks whether
// there is anything in it, perhaps at the same time. Both are changed together here, so that no sleep is cut short for
// somebody who is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace uroce::engine {

template <class T>
class Blockers {
 public:
  /// `one`, which is not among them, must stay where it is until it is removed.
  void add(T& one) {
    those_.push_back(&one);
    note();
  }
  /// So many can be added without memory.
  void reserve(std::size_t count) { those_.reserve(count); }
  /// It need not be among them.
  void remove(const T& one) {
    std::erase(those_, &one);
    note();
  }
  /// Removes those for which `is_none(T&)` says that they hold nobody back any more. Returns are_any().
  template <class Predicate>
  bool recheck(const Predicate& is_none) {
    std::erase_if(those_, [&](T* one) { return is_none(*one); });
    note();
    return are_any();
  }
  /// Any thread.
  bool are_any() const { return are_any_.load(std::memory_order_relaxed); }

 private:
  void note() { are_any_.store(!those_.empty(), std::memory_order_relaxed); }

  std::vector<T*> those_;
  std::atomic<bool> are_any_ = false;
};

}  // namespace uroce::engine
