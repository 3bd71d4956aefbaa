// SPDX-License-Identifier: Apache-2.0
// A library that is preloaded behind ours, as libfakeroot is: it has stat() and its kin under all their names, and the
// new ones call the old ones, which may be those of another library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define STAT(name, old, Status)                                \
  int old(int version, const char* path, struct Status* out) { \
    (void)version;                                             \
    return NEXT(name)(path, out);                              \
  }                                                            \
  int name(const char* path, struct Status* out) { return old(1, path, out); }
STAT(stat, __xstat, stat)
STAT(stat64, __xstat64, stat64)
STAT(lstat, __lxstat, stat)
STAT(lstat64, __lxstat64, stat64)

#define FSTAT(name, old, Status)                     \
  int old(int version, int fd, struct Status* out) { \
    (void)version;                                   \
    return NEXT(name)(fd, out);                      \
  }                                                  \
  int name(int fd, struct Status* out) { return old(1, fd, out); }
FSTAT(fstat, __fxstat, stat)
FSTAT(fstat64, __fxstat64, stat64)

#define FSTATAT(name, old, Status)                                                       \
  int old(int version, int directory, const char* path, struct Status* out, int flags) { \
    (void)version;                                                                       \
    return NEXT(name)(directory, path, out, flags);                                      \
  }                                                                                      \
  int name(int directory, const char* path, struct Status* out, int flags) {             \
    return old(1, directory, path, out, flags);                                          \
  }
FSTATAT(fstatat, __fxstatat, stat)
FSTATAT(fstatat64, __fxstatat64, stat64)
