#include "engine/waiter.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace uroce::engine {

Waiter::Waiter() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool Waiter::wait(std::span<const int> fds, std::optional<Instant> deadline) {
  std::array<pollfd, 16> polled;
  polled[0] = {.fd = event_.get(), .events = POLLIN, .revents = 0};
  const std::size_t count = std::min(fds.size(), polled.size() - 1);
  for (std::size_t i = 0; i < count; ++i) polled[i + 1] = {.fd = fds[i], .events = POLLIN, .revents = 0};

  timespec timeout{};
  if (deadline) timeout = time_until(*deadline);
  const int ready = ::ppoll(polled.data(), count + 1, deadline ? &timeout : nullptr, nullptr);
  if (ready > 0 && (polled[0].revents & POLLIN) != 0) {
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
