// SPDX-License-Identifier: Apache-2.0
// open(2) and its kin, fopen(3), freopen(3), and what reads a file again.
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "verbs/preload/channel_fd.h"
#include "verbs/preload/export.h"
#include "verbs/preload/netlink.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/rewound.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

constinit Rewound rewound;

template <class Do>
void keep_errno(Do what) {
  const int error = errno;
  what();
  errno = error;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

/// `real(path)` opens what is none of ours.
template <class Real>
int open_at(int directory, const char* path, int flags, Real real) {
  const bool follow = (flags & O_NOFOLLOW) == 0 && ((flags & O_CREAT) == 0 || (flags & O_EXCL) == 0);
  return answer(directory, path, follow, -1, real, [&](const Where& where) { return open_node(where, flags); });
}

int open_for_stream(const Where& where, const char* mode) {
  const bool reads_only = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  const int close_on_exec = std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  return open_node(where, (reads_only ? O_RDONLY : O_RDWR) | close_on_exec);
}

FILE* open_stream(const Where& where, const char* mode) {
  const int fd = open_for_stream(where, mode);
  if (fd < 0) return nullptr;
  FILE* const stream = ::fdopen(fd, mode);
  if (stream == nullptr) ::close(fd);
  return stream;
}

/// freopen(3): `real(path)` has `stream` read or write another file. Whatever happens, the former one is closed.
template <class Real>
FILE* reopen_stream(const char* path, const char* mode, FILE* stream, Real real) {
  constexpr int kReal = -2;
  FILE* reopened = nullptr;
  const auto ask_real = [&](const char* real_path) {
    reopened = real(real_path);
    return kReal;
  };
  const int fd =
      answer(AT_FDCWD, path, true, -1, ask_real, [&](const Where& where) { return open_for_stream(where, mode); });
  if (fd == kReal) return reopened;
  if (fd < 0) {
    keep_errno([stream] { std::fclose(stream); });
    return nullptr;
  }
  reopened = real("/dev/null");  // It has the mode, and a descriptor in whose place ours comes.
  if (reopened != nullptr) {
    const int place = ::fileno(reopened);
    ::dup3(fd, place, (::fcntl(place, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  }
  keep_errno([fd] { ::close(fd); });
  return reopened;
}

/// A channel of RDMA CM has commands only.
ssize_t refuse_read() {
  errno = EINVAL;
  return -1;
}

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

// NOLINTBEGIN(cppcoreguidelines-macro-usage): the four of them differ in their names only.
#define UROCE_OPEN(name)                                                                                          \
  UROCE_EXPORT int name(const char* path, int flags, ...) {                                                       \
    mode_t mode = 0;                                                                                              \
    if (takes_mode(flags)) {                                                                                      \
      va_list arguments;                                                                                          \
      va_start(arguments, flags);                                                                                 \
      mode = va_arg(arguments, mode_t);                                                                           \
      va_end(arguments);                                                                                          \
    }                                                                                                             \
    return open_at(AT_FDCWD, path, flags, [&](const char* real) { return UROCE_NEXT(name)(real, flags, mode); }); \
  }
UROCE_OPEN(open)
UROCE_OPEN(open64)

#define UROCE_OPENAT(name)                                                                            \
  UROCE_EXPORT int name(int directory, const char* path, int flags, ...) {                            \
    mode_t mode = 0;                                                                                  \
    if (takes_mode(flags)) {                                                                          \
      va_list arguments;                                                                              \
      va_start(arguments, flags);                                                                     \
      mode = va_arg(arguments, mode_t);                                                               \
      va_end(arguments);                                                                              \
    }                                                                                                 \
    return open_at(directory, path, flags,                                                            \
                   [&](const char* real) { return UROCE_NEXT(name)(directory, real, flags, mode); }); \
  }
UROCE_OPENAT(openat)
UROCE_OPENAT(openat64)

// What programs that were compiled with _FORTIFY_SOURCE call, when there is no mode.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
}
UROCE_EXPORT int __open_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, [&](const char* real) { return UROCE_NEXT(__open_2)(real, flags); });
}
UROCE_EXPORT int __open64_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, [&](const char* real) { return UROCE_NEXT(__open64_2)(real, flags); });
}
UROCE_EXPORT int __openat_2(int directory, const char* path, int flags) {
  return open_at(directory, path, flags,
                 [&](const char* real) { return UROCE_NEXT(__openat_2)(directory, real, flags); });
}
UROCE_EXPORT int __openat64_2(int directory, const char* path, int flags) {
  return open_at(directory, path, flags,
                 [&](const char* real) { return UROCE_NEXT(__openat64_2)(directory, real, flags); });
}

#define UROCE_FOPEN(name)                                               \
  UROCE_EXPORT FILE* name(const char* path, const char* mode) {         \
    return answer(                                                      \
        AT_FDCWD, path, true, static_cast<FILE*>(nullptr),              \
        [&](const char* real) { return UROCE_NEXT(name)(real, mode); }, \
        [&](const Where& where) { return open_stream(where, mode); });  \
  }
UROCE_FOPEN(fopen)
UROCE_FOPEN(fopen64)

#define UROCE_FREOPEN(name)                                                                                           \
  UROCE_EXPORT FILE* name(const char* path, const char* mode, FILE* stream) {                                         \
    return reopen_stream(path, mode, stream, [&](const char* real) { return UROCE_NEXT(name)(real, mode, stream); }); \
  }
UROCE_FREOPEN(freopen)
UROCE_FREOPEN(freopen64)

#define UROCE_LSEEK(name, Offset)                                                                 \
  UROCE_EXPORT Offset name(int fd, Offset offset, int whence) __THROW {                           \
    const Offset position = UROCE_NEXT(name)(fd, offset, whence);                                 \
    if (position == 0 && offset == 0 && whence == SEEK_SET) keep_errno([&] { rewound.add(fd); }); \
    return position;                                                                              \
  }
UROCE_LSEEK(lseek, off_t)
UROCE_LSEEK(lseek64, off64_t)

#define UROCE_PREAD(name, Offset)                                                \
  UROCE_EXPORT ssize_t name(int fd, void* to, std::size_t size, Offset offset) { \
    if (offset == 0) refresh(fd);                                                \
    return UROCE_NEXT(name)(fd, to, size, offset);                               \
  }
UROCE_PREAD(pread, off_t)
UROCE_PREAD(pread64, off64_t)

// Of programs that are built with _FORTIFY_SOURCE.
#define UROCE_PREAD_CHK(name, Offset)                                                              \
  extern "C" ssize_t name(int fd, void* to, std::size_t size, Offset offset, std::size_t room);    \
  UROCE_EXPORT ssize_t name(int fd, void* to, std::size_t size, Offset offset, std::size_t room) { \
    if (offset == 0) refresh(fd);                                                                  \
    return UROCE_NEXT(name)(fd, to, size, offset, room);                                           \
  }
UROCE_PREAD_CHK(__pread_chk, off_t)
UROCE_PREAD_CHK(__pread64_chk, off64_t)
// NOLINTEND(cppcoreguidelines-macro-usage)

UROCE_EXPORT ssize_t read(int fd, void* to, std::size_t size) {
  if (channel_of(fd)) return refuse_read();
  rewound.before_read(fd);
  const ssize_t got = UROCE_NEXT(read)(fd, to, size);
  refill(fd);
  return got;
}
extern "C" ssize_t __read_chk(int fd, void* to, std::size_t size, std::size_t room);
UROCE_EXPORT ssize_t __read_chk(int fd, void* to, std::size_t size, std::size_t room) {
  if (channel_of(fd)) return refuse_read();
  rewound.before_read(fd);
  const ssize_t got = UROCE_NEXT(__read_chk)(fd, to, size, room);
  refill(fd);
  return got;
}
