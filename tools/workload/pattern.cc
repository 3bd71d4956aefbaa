// SPDX-License-Identifier: Apache-2.0
#include "tools/workload/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/base/mix.h"

namespace uroce::tools {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

enum class Use : std::uint64_t { kMessage = 1, kReadSource, kCas, kFaa };

constexpr std::uint64_t hash(Use use, Direction direction, std::uint32_t qp, std::uint64_t number) {
  const std::uint64_t who = static_cast<std::uint64_t>(use) << 40 | static_cast<std::uint64_t>(direction) << 32 | qp;
  return mix(mix(who * kGolden) + number * kGolden);
}

/// Eight bytes of the stream; `index` counts in units of eight. One multiplication: this runs for every 8 bytes moved.
constexpr std::uint64_t word_at(PatternSeed seed, std::uint64_t index) {
  const std::uint64_t x = (seed.value + index) * kGolden;
  return x ^ (x >> 29);
}

/// Bytes of the stream around `offset` up to the next word boundary, at most `limit`.
std::span<const std::uint8_t> partial_word(PatternSeed seed, std::uint64_t offset, std::uint64_t limit,
                                           std::array<std::uint8_t, 8>& storage) {
  const std::uint64_t word = word_at(seed, offset / 8);
  std::memcpy(storage.data(), &word, 8);
  return std::span<const std::uint8_t>(storage).subspan(offset % 8, std::min<std::uint64_t>(8 - offset % 8, limit));
}

}  // namespace

PatternSeed message_seed(Direction direction, std::uint32_t qp, std::uint64_t iteration) {
  return {hash(Use::kMessage, direction, qp, iteration)};
}

PatternSeed read_source_seed(Direction direction, std::uint32_t qp) {
  return {hash(Use::kReadSource, direction, qp, 0)};
}

void fill_pattern(PatternSeed seed, std::uint64_t offset, std::span<std::uint8_t> out) {
  std::array<std::uint8_t, 8> storage;
  while (!out.empty() && offset % 8 != 0) {
    const auto part = partial_word(seed, offset, out.size(), storage);
    std::copy(part.begin(), part.end(), out.begin());
    offset += part.size();
    out = out.subspan(part.size());
  }
  const std::uint64_t words = out.size() / 8;
  const std::uint64_t first = offset / 8;
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t word = word_at(seed, first + i);
    std::memcpy(out.data() + i * 8, &word, 8);
  }
  out = out.subspan(words * 8);
  if (out.empty()) return;
  const auto part = partial_word(seed, offset + words * 8, out.size(), storage);
  std::copy(part.begin(), part.end(), out.begin());
}

std::uint64_t count_pattern_errors(PatternSeed seed, std::uint64_t offset, std::span<const std::uint8_t> data) {
  // Block by block, so that the common case is one memcmp and only a wrong block is counted byte by byte.
  std::array<std::uint8_t, 4096> expected;
  std::uint64_t errors = 0;
  while (!data.empty()) {
    const std::size_t size = std::min(expected.size(), data.size());
    const std::span<std::uint8_t> block = std::span(expected).first(size);
    fill_pattern(seed, offset, block);
    if (std::memcmp(block.data(), data.data(), size) != 0) {
      for (std::size_t i = 0; i < size; ++i) errors += block[i] != data[i] ? 1u : 0u;
    }
    offset += size;
    data = data.subspan(size);
  }
  return errors;
}

std::uint64_t atomic_chain(Op op, Direction direction, std::uint32_t qp, std::uint64_t operations) {
  return hash(op == Op::kCas ? Use::kCas : Use::kFaa, direction, qp, operations);
}

}  // namespace uroce::tools
