// SPDX-License-Identifier: Apache-2.0
#include "engine/os/waiter.h"

#include <cerrno>
#include <vector>

#include "engine/os/background_thread.h"
#include "engine/os/poll_all.h"

namespace uroce::engine {

bool Waiter::wait(std::span<const int> fds, std::optional<Instant> deadline) {
  std::vector<pollfd> polled;  // No member: fork() in another thread would copy it half changed.
  polled.reserve(fds.size() + 1);
  polled.push_back({.fd = event_.fd(), .events = POLLIN, .revents = 0});
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});

  timespec timeout{};
  if (deadline) timeout = time_until(*deadline);
  int ready = 0;
  {
    const LeavableSleep sleep;
    ready = poll_all(polled, deadline ? &timeout : nullptr);
  }
  if (ready > 0 && (polled.front().revents & POLLIN) != 0) event_.clear();
  const bool is_closed = ready > 0 && (polled.front().revents & POLLNVAL) != 0;
  if (is_closed || (ready < 0 && errno != EINTR)) nap();
  return ready > 0;
}

}  // namespace uroce::engine
