// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce {

/// A memcpy() that takes as long wherever the bytes are. glibc's takes "rep movsb", which needs 1.1 us instead of 0.04
/// for 4 KiB on AMD Zen 4 when `to` is up to 31 bytes farther in its page than `from`.
inline void copy_packet(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
  constexpr std::size_t kLine = 64;
  for (; size >= kLine; to += kLine, from += kLine, size -= kLine) {
    std::memcpy(to, from, kLine);
    asm("" : : : "memory");  // Or the compiler makes one memcpy() of them.
  }
  if (size != 0) std::memcpy(to, from, size);
}

}  // namespace uroce
