// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/resources/sges.h"

#include <algorithm>

#include "proto/base/check.h"

namespace uroce::nic {
namespace {

/// Calls fn(memory, size) for each piece of [offset, offset + size) of the list; false when a piece does not resolve,
/// or fn gives false.
template <class Fn>
bool for_each_piece(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges, std::uint64_t offset,
                    std::uint64_t size, std::uint32_t rights, Fn fn) {
  for (const Sge& sge : sges) {
    if (size == 0) return true;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::uint64_t piece = std::min<std::uint64_t>(size, sge.length - offset);
    const auto memory = mrs.resolve(sge.lkey, sge.addr + offset, piece, pd, rights);
    if (!memory) return false;
    if (!fn(*memory, static_cast<std::size_t>(piece))) return false;
    offset = 0;
    size -= piece;
  }
  UROCE_ASSERT(size == 0);  // Callers never ask for more than the list describes.
  return true;
}

}  // namespace

std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t sum = 0;
  for (const Sge& sge : sges) sum += sge.length;
  return sum;
}

bool gather(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges, std::uint64_t offset, MutBytes out,
            std::uint32_t* crc) {
  std::uint8_t* to = out.data();
  return for_each_piece(mrs, pd, sges, offset, out.size(), 0, [&](const std::uint8_t* memory, std::size_t size) {
    UserMemory& user = mrs.memory();
    if (crc != nullptr ? !user.read_with_crc(to, memory, size, *crc) : !user.read(to, memory, size)) return false;
    to += size;
    return true;
  });
}

bool scatter(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges, std::uint64_t offset, Bytes in) {
  const auto look = [](const std::uint8_t*, std::size_t) { return true; };
  if (!for_each_piece(mrs, pd, sges, offset, in.size(), kLocalWrite, look)) return false;
  const std::uint8_t* from = in.data();
  return for_each_piece(mrs, pd, sges, offset, in.size(), kLocalWrite, [&](std::uint8_t* memory, std::size_t size) {
    if (!mrs.memory().write(memory, from, size)) return false;
    from += size;
    return true;
  });
}

std::optional<RefusedKey> refused_key(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges,
                                      std::uint32_t rights) {
  for (const Sge& sge : sges) {
    const auto memory = mrs.resolve(sge.lkey, sge.addr, sge.length, pd, rights);
    if (!memory) return RefusedKey{memory.error(), sge.lkey};
  }
  return std::nullopt;
}

}  // namespace uroce::nic
