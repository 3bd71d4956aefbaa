// SPDX-License-Identifier: Apache-2.0
// Scatter/gather lists for a program's messages.
#pragma once

#include "engine/sim/random.h"
#include "tests/judged/sim/work.h"

namespace uroce::simulator {

/// How a program cuts its buffers.
struct Cut {
  std::uint32_t sges_max = 1;
  double empty_sge = 0;  ///< How likely each piece is empty.
};

/// Takes a slot of `area` and cuts it into pieces of `length` bytes in all, with gaps between them; false when there is
/// no room.
bool take_pieces(engine::sim::Random& random, const Cut& cut, Area& area, std::uint32_t length, std::uint32_t alignment,
                 Pieces& out);

/// The list that names `pieces`, of memory whose offset 0 has the address `base`; it lies in `out`.

std::span<const nic::Sge> sges_of(const Pieces& pieces, std::uint64_t base, std::uint32_t key,
                                  std::array<nic::Sge, kSgesMax>& out);

}  // namespace uroce::simulator
