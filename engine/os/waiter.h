// SPDX-License-Identifier: Apache-2.0
// Sleeping until something happens on file descriptors, until a deadline, or until another thread says wake().
#pragma once

#include <optional>
#include <span>

#include "engine/os/os_clock.h"
#include "engine/os/wake_event.h"

namespace uroce::engine {

/// ppoll() with an eventfd, for descriptors that change. Those of a port: engine/os/interrupts.h.
class Waiter {
 public:
  /// Blocks until one of `fds` is readable, until `deadline`, or until wake(). Spurious returns are possible. Any
  /// number of descriptors. Returns false when it was the deadline.
  bool wait(std::span<const int> fds, std::optional<Instant> deadline);
  /// Ends a wait() that runs, or the next one. Any thread; async-signal-safe.
  void wake() const { event_.signal(); }
  bool valid() const { return event_.valid(); }
  /// Why not, as errno of eventfd().
  int error() const { return event_.error(); }
  void close() { event_.close(); }

 private:
  WakeEvent event_;
};

}  // namespace uroce::engine
