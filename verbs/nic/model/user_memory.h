// SPDX-License-Identifier: Apache-2.0
// The program's memory, as the NIC touches it. Registration does not keep it: other threads may unmap or protect it at
// any moment, also in the middle of a copy. So every access can fail, and says so instead of crashing (docs/adr/0011).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::nic {

class UserMemory {
 public:
  virtual ~UserMemory() = default;

  /// Copies `size` bytes from the program's memory, or to it; the ranges do not overlap. False when it is not there, or
  /// only for reading; a part may have been copied then.
  virtual bool read(void* to, const void* from, std::size_t size) = 0;
  virtual bool write(void* to, const void* from, std::size_t size) = 0;
  /// read() that continues `crc` (proto/crc32.h) with what it has copied.
  virtual bool read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) = 0;
  /// Adds to a word of the program, which is aligned, in one step. Returns what was there; nothing as read().
  virtual std::optional<std::uint64_t> fetch_add(std::uint64_t* word, std::uint64_t operand) = 0;
  /// The same for: if the word is `expected`, it becomes `desired`.
  virtual std::optional<std::uint64_t> compare_swap(std::uint64_t* word, std::uint64_t expected,
                                                    std::uint64_t desired) = 0;
  /// Writes such a word in one step, after everything copied before. False as write().
  virtual bool store(std::uint64_t* word, std::uint64_t value) = 0;
};

/// For users whose memory stays where it is, as the simulator's does.
UserMemory& steady_memory();

}  // namespace uroce::nic
