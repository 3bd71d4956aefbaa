// SPDX-License-Identifier: Apache-2.0
// Which pipes are no channels, without a lock.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace uroce::rdmacm {

/// A set of inodes that is never wrong about what it has, and seldom about what it has not. may_have() may be called by
/// any thread, also in a signal handler; add() and remove() by one at a time.
class PipeFilter {
 public:
  void add(ino_t pipe) { place_of(pipe).fetch_add(1, std::memory_order_release); }
  /// What was added.
  void remove(ino_t pipe) { place_of(pipe).fetch_sub(1, std::memory_order_release); }
  bool may_have(ino_t pipe) const { return places_[index_of(pipe)].load(std::memory_order_acquire) != 0; }

 private:
  // Pipes get inodes one after the other, so that those of a process differ here.
  static constexpr std::size_t kPlaces = 4096;
  static std::size_t index_of(ino_t pipe) { return pipe % kPlaces; }
  std::atomic<std::uint32_t>& place_of(ino_t pipe) { return places_[index_of(pipe)]; }

  std::array<std::atomic<std::uint32_t>, kPlaces> places_{};
};

}  // namespace uroce::rdmacm
