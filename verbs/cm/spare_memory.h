// SPDX-License-Identifier: Apache-2.0
// Memory for the manager's tables. What a message changes stands in several of them, so one that found no memory
// halfway would leave them at odds. What a step may need is therefore set aside before it begins.
#pragma once

#include <array>
#include <memory_resource>
#include <new>

#include "proto/base/check.h"

namespace uroce::cm {

/// For containers that allocate node by node: a hash table or a deque also takes memory that grows with it.
class SpareMemory final : public std::pmr::memory_resource {
 public:
  SpareMemory() = default;
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;
  ~SpareMemory() override {
    while (count_ > 0) ::operator delete(pieces_[--count_]);
  }

  /// Before each step: from now on, so many allocations succeed. bad_alloc: there is no memory for that.
  void set_aside() {
    for (; count_ < pieces_.size(); ++count_) pieces_[count_] = ::operator new(kPieceSize);
  }

 private:
  static constexpr std::size_t kPieceSize = 1024;  ///< A node of any table.

  void* do_allocate(std::size_t size, std::size_t alignment) override {
    UROCE_ASSERT(size <= kPieceSize && alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (void* const memory = ::operator new(size, std::nothrow)) return memory;
    UROCE_ASSERT(count_ > 0);
    return pieces_[--count_];
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { ::operator delete(memory); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::array<void*, 16> pieces_{};  ///< No step takes more: a request that goes back to its queue takes 6.
  std::size_t count_ = 0;
};

}  // namespace uroce::cm
