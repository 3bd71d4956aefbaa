// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace uroce::nic {

/// The entry of a ring of `size` entries that is `place` behind its first one, less than two rings behind. Without a
/// division: there would be several for each packet.
constexpr std::size_t wrapped(std::size_t place, std::size_t size) { return place < size ? place : place - size; }

}  // namespace uroce::nic
