// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/pieces.h"

#include <algorithm>

namespace uroce::simulator {

bool take_pieces(engine::sim::Random& random, const Cut& cut, Area& area, std::uint32_t length, std::uint32_t alignment,
                 Pieces& out) {
  const auto count = static_cast<std::uint32_t>(1 + random.below(cut.sges_max));
  const std::uint32_t gap = count == 1 ? 0 : static_cast<std::uint32_t>(random.below(9));
  out = Pieces{};
  if (length == 0) {
    out.count = count - 1;  // No piece at all, or only empty ones.
    for (std::uint32_t i = 0; i < out.count; ++i) out.pieces[i] = {area.whole().begin, 0};
    return true;
  }
  const auto skew = static_cast<std::uint32_t>(alignment == 1 ? random.below(4) : 0);
  if (!area.take(length + gap * (count - 1), out.slot, alignment, skew)) return false;
  std::uint32_t at = out.slot.begin;
  std::uint32_t left = length;
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    std::uint32_t size = random.chance(cut.empty_sge) ? 0 : static_cast<std::uint32_t>(random.below(left + 1));
    if (random.chance(0.2)) size = std::min(left, 1u);
    out.pieces[out.count++] = {at, size};
    at += size + gap;
    left -= size;
  }
  out.pieces[out.count++] = {at, left};
  return true;
}

std::span<const nic::Sge> sges_of(const Pieces& pieces, std::uint64_t base, std::uint32_t key,
                                  std::array<nic::Sge, kSgesMax>& out) {
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    out[i] = {base + pieces.pieces[i].begin, pieces.pieces[i].length, key};
  }
  return {out.data(), pieces.count};
}

}  // namespace uroce::simulator
