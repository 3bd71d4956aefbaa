#include "engine/os/waiter.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace uroce::engine {

Waiter::Waiter() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool Waiter::wait(std::span<const int> fds, std::optional<Instant> deadline) {
  std::vector<pollfd> polled;  // No member: fork() in another thread would copy it half changed.
  polled.reserve(fds.size() + 1);
  polled.push_back({.fd = event_.get(), .events = POLLIN, .revents = 0});
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});

  timespec timeout{};
  if (deadline) timeout = time_until(*deadline);
  const int ready = ::ppoll(polled.data(), polled.size(), deadline ? &timeout : nullptr, nullptr);
  if (ready > 0 && (polled.front().revents & POLLIN) != 0) {
    std::uint64_t times_woken = 0;
    [[maybe_unused]] const ssize_t n = ::read(event_.get(), &times_woken, sizeof times_woken);
  }
  return ready > 0;
}

void Waiter::wake() const {
  const int saved = errno;  // May be called from a signal handler.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
  errno = saved;
}

}  // namespace uroce::engine
