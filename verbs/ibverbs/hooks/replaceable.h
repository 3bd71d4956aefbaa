// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

namespace uroce::ibv {

/// A T that one thread may replace while others use it. Those that were replaced are kept, since somebody may still be
/// at them: for what is replaced by hand, now and then.
template <class T>
class Replaceable {
 public:
  explicit Replaceable(std::unique_ptr<T> first) { replace(std::move(first)); }
  T& now() const { return *current_.load(std::memory_order_acquire); }
  /// For one thread at a time.
  void replace(std::unique_ptr<T> by) {
    current_.store(by.get(), std::memory_order_release);
    all_.push_back(std::move(by));
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::atomic<T*> current_ = nullptr;
};

}  // namespace uroce::ibv
