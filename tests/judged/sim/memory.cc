// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/memory.h"

#include <algorithm>

#include "engine/sim/random.h"
#include "proto/base/check.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {
namespace {

/// Position of the first byte at which two ranges of one length differ; their length when none does.
std::size_t first_difference(Bytes a, Bytes b) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return a.size();
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

}  // namespace

void fill_pattern(MutBytes out, std::uint64_t seed) {
  engine::sim::Random random(seed);
  std::size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data() + i, &word, 8);
  }
  if (i == out.size()) return;
  const std::uint64_t word = random.next();
  std::memcpy(out.data() + i, &word, out.size() - i);
}

Memory::Memory(std::uint32_t size, std::uint64_t seed) : actual_(size) {
  fill_pattern(actual_, seed);
  model_ = actual_;
}

void Memory::store(Extent extent, Bytes bytes) {
  UROCE_ASSERT(bytes.size() == extent.length);
  compare(extent);
  std::copy(bytes.begin(), bytes.end(), actual_.begin() + extent.begin);
  std::copy(bytes.begin(), bytes.end(), model_.begin() + extent.begin);
}

void Memory::open(Extent extent) {
  if (extent.length == 0) return;
  const auto [at, fresh] = open_.emplace(extent.begin, extent.length);
  UROCE_ASSERT(fresh);
  UROCE_ASSERT(at == open_.begin() || std::prev(at)->first + std::prev(at)->second <= extent.begin);
  UROCE_ASSERT(std::next(at) == open_.end() || std::next(at)->first >= extent.end());
}

void Memory::settle(Extent extent, Bytes expected, std::string_view what) {
  UROCE_ASSERT(expected.size() == extent.length);
  if (const std::size_t at = first_difference(actual(extent), expected); at != extent.length) {
    incorrect("{}: byte {} of {} is 0x{:02x}, should be 0x{:02x}", what, at, extent.length, actual_[extent.begin + at],
              expected[at]);
  }
  std::copy(expected.begin(), expected.end(), model_.begin() + extent.begin);
  open_.erase(extent.begin);
}

void Memory::settle_partly(Extent extent, Bytes candidate, std::string_view what, bool at_once) {
  UROCE_ASSERT(candidate.size() == extent.length);
  if (first_difference(actual(extent), model(extent)) == extent.length) return settle_unknown(extent);
  if (at_once && first_difference(actual(extent), candidate) != extent.length) {
    incorrect("{}: a part of the {} bytes that go at once", what, extent.length);
  }
  for (std::uint32_t i = 0; i < extent.length; ++i) {
    const std::uint8_t byte = actual_[extent.begin + i];
    if (byte != candidate[i] && byte != model_[extent.begin + i]) {
      incorrect("{}: byte {} of {} is 0x{:02x}, neither the old 0x{:02x} nor the new 0x{:02x}", what, i, extent.length,
                byte, model_[extent.begin + i], candidate[i]);
    }
  }
  settle_unknown(extent);
}

void Memory::settle_unknown(Extent extent) {
  std::copy_n(actual_.begin() + extent.begin, extent.length, model_.begin() + extent.begin);
  open_.erase(extent.begin);
}

void Memory::foresee(Extent extent, Bytes bytes) {
  UROCE_ASSERT(bytes.size() == extent.length);
  std::copy(bytes.begin(), bytes.end(), model_.begin() + extent.begin);
}

void Memory::confirm(Extent extent) const {
  const std::size_t at = first_difference(actual(extent), model(extent));
  if (at == extent.length) return;
  incorrect("byte {} of the {} that a packet has for offset 0x{:x} is 0x{:02x}, should be 0x{:02x}", at, extent.length,
            extent.begin, actual_[extent.begin + at], model_[extent.begin + at]);
}

void Memory::check() const {
  std::uint32_t from = 0;
  for (const auto& [begin, length] : open_) {
    compare({from, begin - from});
    from = begin + length;
  }
  compare({from, size() - from});
}

void Memory::compare(Extent extent) const {
  const std::size_t at = first_difference(actual(extent), model(extent));
  if (at == extent.length) return;
  incorrect("memory that no operation may change has changed: offset 0x{:x} is 0x{:02x}, was 0x{:02x}",
            extent.begin + at, actual_[extent.begin + at], model_[extent.begin + at]);
}

bool Area::take(std::uint32_t length, Extent& out, std::uint32_t alignment, std::uint32_t skew) {
  const auto fitting = [&](std::uint32_t from) {
    return (from - whole_.begin + alignment - 1) / alignment * alignment + whole_.begin + skew;
  };
  std::uint32_t from = fitting(whole_.begin);
  auto next = used_.begin();
  while (next != used_.end() && from + length > next->begin) {
    from = fitting(next->end());
    ++next;
  }
  if (from + length > whole_.end()) return false;
  out = {from, length};
  used_.insert(next, out);
  return true;
}

void Area::give_back(Extent piece) {
  const auto at = std::find_if(used_.begin(), used_.end(), [&](const Extent& e) { return e.begin == piece.begin; });
  UROCE_ASSERT(at != used_.end() && at->length == piece.length);
  used_.erase(at);
}

}  // namespace uroce::simulator
