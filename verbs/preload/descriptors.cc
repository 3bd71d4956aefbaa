// SPDX-License-Identifier: Apache-2.0
// Functions on descriptors that a channel of RDMA CM answers in its own way.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>

#include "verbs/preload/channel_fd.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/older_libc.h"
#include "verbs/preload/working_directory.h"
#include "verbs/rdmacm/commands.h"

using namespace uroce::preload;

namespace {

/// What the kernel does for all descriptors, and asks no device. Programs set O_NONBLOCK so, too: Boost.Asio, Python.
bool is_for_any_descriptor(unsigned long request) {
  return request == FIONBIO || request == FIOCLEX || request == FIONCLEX;
}

}  // namespace

// A cancellation point, as GET_EVENT waits in it: the thread's stack may be unwound through this function.
UROCE_EXPORT ssize_t write(int fd, const void* from, std::size_t size) {
  if (const auto channel = channel_of(fd)) return uroce::rdmacm::execute(channel, fd, from, size);
  return UROCE_NEXT(write)(fd, from, size);
}

UROCE_EXPORT int close(int fd) {
  if (names_working_directory(fd)) return 0;
  const auto channel = channel_of(fd);
  const int status = UROCE_NEXT(close)(fd);
  if (channel) note_close(channel);
  return status;
}

UROCE_EXPORT int dup(int fd) __THROW {
  const int copy = UROCE_NEXT(dup)(fd);
  note_copy(fd, copy);
  return copy;
}
UROCE_EXPORT int dup2(int fd, int to) __THROW {
  const auto covered = fd == to ? nullptr : channel_of(to);
  const int copy = UROCE_NEXT(dup2)(fd, to);
  note_copy(fd, copy);
  if (covered) note_close(covered);
  return copy;
}
UROCE_EXPORT int dup3(int fd, int to, int flags) __THROW {
  const auto covered = fd == to ? nullptr : channel_of(to);
  const int copy = UROCE_NEXT(dup3)(fd, to, flags);
  note_copy(fd, copy);
  if (covered) note_close(covered);
  return copy;
}

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only.
// Whatever the argument is: passed on as it came, as libc does.
#define UROCE_FCNTL(name)                                                        \
  UROCE_EXPORT int name(int fd, int command, ...) {                              \
    va_list arguments;                                                           \
    va_start(arguments, command);                                                \
    void* const argument = va_arg(arguments, void*);                             \
    va_end(arguments);                                                           \
    const int result = UROCE_NEXT(name)(fd, command, argument);                  \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) note_copy(fd, result); \
    return result;                                                               \
  }
UROCE_FCNTL(fcntl)
UROCE_FCNTL(fcntl64)
// NOLINTEND(cppcoreguidelines-macro-usage)

UROCE_EXPORT int close_range(unsigned int first, unsigned int last, int flags) __THROW {
  const auto close_some = [flags](unsigned int from, unsigned int to) {
    return UROCE_NEXT_OR(close_range, kernel_close_range)(from, to, flags);
  };
  const int named = descriptor_of_working_directory();
  const auto kept = static_cast<unsigned int>(named);
  int status = 0;
  if (named < 0 || kept < first || kept > last) {
    status = close_some(first, last);
  } else {
    if (kept > first) status = close_some(first, kept - 1);
    if (status == 0 && kept < last) status = close_some(kept + 1, last);
  }
  note_closes();
  return status;
}
UROCE_EXPORT void closefrom(int first) __THROW {
  const int kept = descriptor_of_working_directory();
  for (first = std::max(first, 0); first <= kept; ++first) {
    if (first != kept) UROCE_NEXT(close)(first);
  }
  UROCE_NEXT_OR(closefrom, kernel_closefrom)(first);
  note_closes();
}

UROCE_EXPORT int ioctl(int fd, unsigned long request, ...) __THROW {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (!is_for_any_descriptor(request) && channel_of(fd)) {
    errno = ENOTTY;
    return -1;
  }
  return UROCE_NEXT(ioctl)(fd, request, argument);
}
