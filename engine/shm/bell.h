// SPDX-License-Identifier: Apache-2.0
// How a NIC that sleeps is woken by those who write into its rings: it says in a page that they can read whether it
// sleeps, and they ring an eventfd. While it is awake nobody makes a system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/os/fd.h"
#include "engine/shm/shared_memory.h"

namespace uroce::engine {

inline constexpr std::size_t kBellMemory = 4096;

/// The sleeper's side.
class Bell {
 public:
  /// Nothing when the system has no descriptor or no memory for it; errno says why.
  static std::optional<Bell> make();

  /// Says whether a packet has to ring. After set_asleep(true) look once more at the rings before you sleep: who
  /// published before that did not ring. One thread at a time.
  void set_asleep(bool asleep);

  /// Says whether it is who reads the rings, asleep or not: of a program, one that polls or waits for events.
  void set_reading(bool is_reading);

  /// Has fd() no longer be readable because of those who rang. Never waits.
  void forget_rings() const;

  /// Readable after somebody rang, until forget_rings(): an edge-triggered epoll sees each time.
  int fd() const { return event_.get(); }
  /// What those who write need, besides fd().
  int memory_fd() const { return memory_fd_.get(); }
  /// In a child of fork().
  void close();

 private:
  Bell(Fd event, Fd memory_fd, Mapping memory);
  Fd event_;
  Fd memory_fd_;
  Mapping memory_;
};

/// Those of a NIC: who sleeps for its packets.
struct Bells {
  Bell thread;   ///< The background thread.
  Bell program;  ///< A thread of the program, which waits for an event.
};

/// A writer's side.
class BellRope {
 public:
  /// A bell of another process, which may have sent anything. Nothing when it is none.
  static std::optional<BellRope> adopt(Fd event, const Fd& memory);

  /// Wakes the sleeper if it sleeps and was not woken before. To be called after publishing. Returns whether it did,
  /// with two system calls: the first one looks whether the other would block.
  bool ring_if_asleep();
  /// Whether the sleeper has broken the rules: to ring would have blocked.
  bool is_broken() const { return broken_; }
  /// What set_reading() said.
  bool is_reading() const;
  /// In a child of fork().
  void close();

 private:
  BellRope(Fd event, Mapping memory) : event_(std::move(event)), memory_(std::move(memory)) {}
  Fd event_;
  Mapping memory_;
  std::uint32_t rung_ = 0;  ///< The sleep that we ended last.
  bool broken_ = false;
};

}  // namespace uroce::engine
