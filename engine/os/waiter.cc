// SPDX-License-Identifier: Apache-2.0
#include "engine/os/waiter.h"

#include <poll.h>

#include <vector>

namespace uroce::engine {

bool Waiter::wait(std::span<const int> fds, std::optional<Instant> deadline) {
  std::vector<pollfd> polled;  // No member: fork() in another thread would copy it half changed.
  polled.reserve(fds.size() + 1);
  polled.push_back({.fd = event_.fd(), .events = POLLIN, .revents = 0});
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});

  timespec timeout{};
  if (deadline) timeout = time_until(*deadline);
  const int ready = ::ppoll(polled.data(), polled.size(), deadline ? &timeout : nullptr, nullptr);
  if (ready > 0 && (polled.front().revents & POLLIN) != 0) event_.clear();
  return ready > 0;
}

}  // namespace uroce::engine
