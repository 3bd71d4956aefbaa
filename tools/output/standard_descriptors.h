// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace uroce::tools {

/// A process that was started with stdin, stdout or stderr closed must not have its sockets and files take their
/// numbers: what is printed would get into them. `flags` are those of open(2), for /dev/null instead. With O_RDONLY,
/// output is missed as if it were still closed.
inline void occupy_standard_descriptors(int flags) {
  int fd = open("/dev/null", flags);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", flags);
  if (fd >= 0) close(fd);
}

}  // namespace uroce::tools
