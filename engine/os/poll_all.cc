// SPDX-License-Identifier: Apache-2.0
#include "engine/os/poll_all.h"

#include <sys/select.h>

#include <algorithm>
#include <cerrno>

namespace uroce::engine {

int poll_all(std::span<pollfd> polled, const timespec* most) {
  const int ready = ::ppoll(polled.data(), polled.size(), most, nullptr);
  if (ready >= 0 || errno != EINVAL) return ready;
  fd_set readable;
  FD_ZERO(&readable);
  int end = 0;
  for (const pollfd& one : polled) {
    if (one.fd >= FD_SETSIZE) {
      errno = EINVAL;
      return -1;
    }
    if (one.fd >= 0) FD_SET(one.fd, &readable);
    end = std::max(end, one.fd + 1);
  }
  const int selected = ::pselect(end, &readable, nullptr, nullptr, most, nullptr);
  for (pollfd& one : polled) {
    const bool is_ready = selected > 0 && one.fd >= 0 && FD_ISSET(one.fd, &readable);
    one.revents = is_ready ? POLLIN : 0;
  }
  return selected;
}

}  // namespace uroce::engine
