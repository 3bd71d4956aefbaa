// SPDX-License-Identifier: Apache-2.0
// The memory of one host, twice: the bytes that its NIC reaches, and a model of what they must be. The two may differ
// only where an operation is under way ("open"); what comes out there is judged when the operation ends.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bytes.h"

namespace uroce::simulator {

/// Bytes [begin, end()) of a host's memory.
struct Extent {
  std::uint32_t begin = 0;
  std::uint32_t length = 0;
  std::uint32_t end() const { return begin + length; }
};

/// Fills `out` with bytes that only `seed` has.
void fill_pattern(MutBytes out, std::uint64_t seed);

class Memory {
 public:
  /// Every byte starts with a value of its own, so that guards and targets are never by accident what was written.
  Memory(std::uint32_t size, std::uint64_t seed);

  std::uint8_t* data() { return actual_.data(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(actual_.size()); }
  Bytes actual(Extent e) const { return Bytes(actual_).subspan(e.begin, e.length); }
  Bytes model(Extent e) const { return Bytes(model_).subspan(e.begin, e.length); }

  /// The program itself writes.
  void store(Extent extent, Bytes bytes);
  /// From now on the NIC may change `extent`. Open extents never overlap.
  void open(Extent extent);
  /// The operation has succeeded: the bytes are exactly these. Closes the extent if it is open.
  void settle(Extent extent, Bytes expected, std::string_view what);
  /// The operation may have been done in part: each byte is the old or the new one; `at_once`: all are, or none is.
  /// Closes the extent.
  void settle_partly(Extent extent, Bytes candidate, std::string_view what, bool at_once = false);
  /// Takes over what is there (the result of an atomic). Closes the extent.
  void settle_unknown(Extent extent);
  /// The NIC will write exactly these bytes, before anybody looks again. Not where anything is open.
  void foresee(Extent extent, Bytes bytes);
  /// What was foreseen is there.
  void confirm(Extent extent) const;
  bool is_open(Extent extent) const { return open_.count(extent.begin) != 0; }

  /// Compares everything that is not open with the model.
  void check() const;

 private:
  void compare(Extent extent) const;

  std::vector<std::uint8_t> actual_, model_;
  std::map<std::uint32_t, std::uint32_t> open_;  ///< Length by beginning.
};

/// Hands out pieces of one area; first fit.
class Area {
 public:
  explicit Area(Extent whole) : whole_(whole) {}
  const Extent& whole() const { return whole_; }
  /// A piece of `length` bytes at a multiple of `alignment` plus `skew`; false when there is no room.
  bool take(std::uint32_t length, Extent& out, std::uint32_t alignment = 1, std::uint32_t skew = 0);
  void give_back(Extent piece);

 private:
  Extent whole_;
  std::vector<Extent> used_;  ///< By beginning.
};

}  // namespace uroce::simulator
