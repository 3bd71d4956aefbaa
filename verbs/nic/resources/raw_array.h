// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace uroce::nic {

/// Memory for `size` objects of which none has been made yet. Queues can hold millions of entries and mostly have few:
/// to make them all takes 160 ms for a million, and the NIC is locked meanwhile. Read only what was written before.
/// Throws std::bad_alloc.
template <class T>
class RawArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit RawArray(std::size_t size)
      : memory_(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{alignof(T)}))), size_(size) {}

  std::size_t size() const { return size_; }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  T& operator[](std::size_t i) { return memory_[i]; }
  const T& operator[](std::size_t i) const { return memory_[i]; }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{alignof(T)}); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::size_t size_;
};

}  // namespace uroce::nic
