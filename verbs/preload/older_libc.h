// SPDX-License-Identifier: Apache-2.0
// Functions that libc does not have before glibc 2.33 (stat and its kin) or 2.34: what the kernel offers for them.
// Programs of such a system do not call them, but libraries that look them up do, and so do our own.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce::preload {

// `out`: struct stat or stat64, which are the kernel's structure too where a file's size has 64 bits anyway.
inline int kernel_fstatat(int directory, const char* path, void* out, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, directory, path, out, flags));
}
inline int kernel_stat(const char* path, void* out) { return kernel_fstatat(AT_FDCWD, path, out, 0); }
inline int kernel_lstat(const char* path, void* out) {
  return kernel_fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
inline int kernel_fstat(int fd, void* out) { return static_cast<int>(::syscall(SYS_fstat, fd, out)); }

// The same behind the names from before glibc 2.33: __fxstatat(), __xstat(), __lxstat() and __fxstat().
inline int old_kernel_fstatat(int, int directory, const char* path, void* out, int flags) {
  return kernel_fstatat(directory, path, out, flags);
}
inline int old_kernel_stat(int, const char* path, void* out) { return kernel_stat(path, out); }
inline int old_kernel_lstat(int, const char* path, void* out) { return kernel_lstat(path, out); }
inline int old_kernel_fstat(int, int fd, void* out) { return kernel_fstat(fd, out); }

inline int kernel_close_range(unsigned first, unsigned last, int flags) {
  return static_cast<int>(::syscall(__NR_close_range, first, last, flags));
}
inline void kernel_closefrom(int first) { kernel_close_range(static_cast<unsigned>(first), ~0U, 0); }

}  // namespace uroce::preload
