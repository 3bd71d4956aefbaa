// SPDX-License-Identifier: Apache-2.0
// Files of sysfs are made anew when they are read from the beginning again, and monitors that keep one open do just
// that: lseek(), later read(). So we remember who has gone back to the beginning.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "verbs/preload/node_fd.h"

namespace uroce::preload {

class Rewound {
 public:
  /// `descriptor` stands at the beginning again.
  void add(int descriptor) {
    if (!covers(descriptor) || !path_of_descriptor(descriptor)) return;
    if (!at(descriptor).exchange(true)) count_.fetch_add(1);
  }
  /// Something will be read from `descriptor`. Every read() of a program comes here: it is one comparison, mostly.
  void before_read(int descriptor) {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    if (!covers(descriptor) || !at(descriptor).exchange(false)) return;
    count_.fetch_sub(1);
    refresh(descriptor);
  }

 private:
  static constexpr std::size_t kMaxDescriptor = 1024;  ///< Above, files say for ever what they said when opened.
  static bool covers(int descriptor) {
    return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMaxDescriptor;
  }
  std::atomic<bool>& at(int descriptor) { return marks_[static_cast<std::size_t>(descriptor)]; }

  std::atomic<int> count_ = 0;  ///< Marks that are set.
  std::array<std::atomic<bool>, kMaxDescriptor> marks_{};
};

}  // namespace uroce::preload
