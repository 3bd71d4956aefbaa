// Sleeping until something happens on file descriptors, until a deadline, or until another thread says wake().
#pragma once

#include <optional>
#include <span>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"

namespace uroce::engine {

/// ppoll() with an eventfd. Waiting happens here and never inside an io_uring: a request armed by one thread completes
/// in that thread's context, which may be gone or busy when the packet arrives.
class Waiter {
 public:
  Waiter();

  /// Blocks until one of `fds` is readable, until `deadline`, or until wake(). Spurious returns are possible. Any
  /// number of descriptors. Returns false when it was the deadline.
  bool wait(std::span<const int> fds, std::optional<Instant> deadline);
  /// Ends a wait() that runs, or the next one. Any thread; async-signal-safe.
  void wake() const;
  bool valid() const { return static_cast<bool>(event_); }
  void close() { event_.reset(); }

 private:
  Fd event_;
};

}  // namespace uroce::engine
