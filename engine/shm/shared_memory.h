// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share: a memfd that can be neither shrunk nor grown any more, so that reading it never
// raises SIGBUS, whatever the other process does to its descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/os/fd.h"

namespace uroce::engine {

/// No Linux on a processor that we are built for has larger pages.
inline constexpr std::size_t kLargestPage = 64 * 1024;

/// What is mapped of a memory of `head + ring` bytes. The part `ring` is mapped twice in a row, so that what begins at
/// its end continues at its beginning. Both are multiples of the page size; `ring` may be 0. A child of fork() does not
/// have the mapping.
class Mapping {
 public:
  enum class Access : std::uint8_t { kRead, kReadWrite };
  /// Nothing when the system has no memory.
  static std::optional<Mapping> make(int fd, std::size_t head, std::size_t ring, Access access);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::uint8_t* data() const { return data_; }
  /// In a child of fork(), where it does not exist: there is nothing to be undone.
  void forget() { data_ = nullptr; }

 private:
  Mapping(std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Makes shared memory of `size` bytes, all 0. Invalid when the system has none; errno says why.
Fd make_shared_memory(std::size_t size);
/// After the maker has mapped it: processes that get the descriptor from now on may only read. False when the kernel
/// refuses.
bool forbid_new_writers(int fd);
/// Whether `fd`, which came from another process, is a memory of make_shared_memory() with exactly `size` bytes.
bool is_shared_memory(int fd, std::size_t size);

}  // namespace uroce::engine
