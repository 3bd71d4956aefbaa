// SPDX-License-Identifier: Apache-2.0
// Data whose every byte is known in advance: message (direction, QP, iteration) is a window into a pseudo-random
// stream. Neighbouring messages, QPs and directions differ in nearly every byte, so that a stale buffer, a swapped QP
// or a byte that never arrived is found.
#pragma once

#include <cstdint>
#include <span>

#include "tools/workload/workload.h"

namespace uroce::tools {

/// The sending side: part of the pattern, so that data that comes back is not taken for data that arrives.
enum class Direction : std::uint8_t { kClientToServer, kServerToClient };
constexpr Direction opposite(Direction direction) {
  return direction == Direction::kClientToServer ? Direction::kServerToClient : Direction::kClientToServer;
}

/// Names one stream of bytes.
struct PatternSeed {
  std::uint64_t value = 0;
};
/// The stream of message `iteration` of QP `qp`.
PatternSeed message_seed(Direction direction, std::uint32_t qp, std::uint64_t iteration);
/// The stream that lies in memory for READs of QP `qp`; iteration i reads it from byte read_offset(i) on.
PatternSeed read_source_seed(Direction direction, std::uint32_t qp);

/// READ sources are longer than a message by this much, so that successive READs see different bytes.
inline constexpr std::uint64_t kReadSpread = 4096;
constexpr std::uint64_t read_offset(std::uint64_t iteration) { return iteration % 509 * 8; }
static_assert(read_offset(508) + 8 <= kReadSpread);

/// Writes bytes [offset, offset + out.size()) of the stream.
void fill_pattern(PatternSeed seed, std::uint64_t offset, std::span<std::uint8_t> out);
/// How many bytes of `data` differ from bytes [offset, offset + data.size()) of the stream.
std::uint64_t count_pattern_errors(PatternSeed seed, std::uint64_t offset, std::span<const std::uint8_t> data);

/// What the word of `op` (kCas or kFaa) of QP `qp` holds after so many of its operations. A CAS compares with one value
/// and swaps in the next, a FAA adds the difference: what is left at the end says whether each of them happened once.
std::uint64_t atomic_chain(Op op, Direction direction, std::uint32_t qp, std::uint64_t operations);

}  // namespace uroce::tools
