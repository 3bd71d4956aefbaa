// SPDX-License-Identifier: Apache-2.0
// stat(2) and its kin, under all the names that libc has had for them.
#include <fcntl.h>
#include <sys/stat.h>

#include "verbs/preload/caller_memory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/older_libc.h"
#include "verbs/preload/status.h"

namespace uroce::preload {
namespace {

// One structure under two names, where a file's size has 64 bits anyway.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
static_assert(offsetof(struct stat, st_ctim) == offsetof(struct stat64, st_ctim));

template <class Status, class Real>
int status_at(int directory, const char* path, bool follow, Status* out, Real real) {
  return answer(directory, path, follow, -1, real, [&](const Where& where) {
    const struct stat status = status_of(where.path, *where.node);
    return give(out, &status, sizeof status) ? 0 : -1;
  });
}

/// Unlinked files and pipes: what stands behind descriptors of the view.
bool may_be_ours(mode_t mode, std::uint64_t links) { return (S_ISREG(mode) && links == 0) || S_ISFIFO(mode); }

/// After the kernel has answered for `fd`: if it is one of ours, it is not the memory behind it that counts.
template <class Status>
void correct(int fd, Status* out) {
  if (!may_be_ours(out->st_mode, out->st_nlink)) return;
  const int error = errno;
  if (const auto path = path_of_descriptor(fd)) {
    const view::Node* const node = tree().find(*path);
    if (node != nullptr) *reinterpret_cast<struct stat*>(out) = status_of(*path, *node);
  }
  errno = error;
}

template <class Status>
int corrected(int status, int fd, Status* out) {
  if (status == 0) correct(fd, out);
  return status;
}

/// After the kernel has answered for `path`: it can be read.
bool means_descriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && path != nullptr && *path == '\0';
}

template <class Status, class Real>
int status_by_flags(int directory, const char* path, Status* out, int flags, Real real) {
  const int status = status_at(directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, out, real);
  if (status == 0 && means_descriptor(path, flags)) correct(directory, out);
  return status;
}

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

// NOLINTBEGIN(cppcoreguidelines-macro-usage): one function under many names.
// Programs that were linked before glibc 2.33 call the function under its old name; `version` says nothing on 64-bit
// machines. Neither calls the other: headers of that time turn the new name into the old one. And each goes on to the
// next function of its own name, as other preloaded libraries come back to us under the other one: libfakeroot's
// fstat() calls __fxstat(). In newer libcs dlsym() does not find the old names; the kernel's function does the same.
#define UROCE_STAT(name, old, Status, kernels, follow)                                                         \
  UROCE_EXPORT int name(const char* path, Status* out) __THROW {                                               \
    return status_at(AT_FDCWD, path, follow, out,                                                              \
                     [&](const char* real) { return UROCE_NEXT_OR(name, kernels)(real, out); });               \
  }                                                                                                            \
  UROCE_EXPORT int old(int version, const char* path, Status* out) {                                           \
    return status_at(AT_FDCWD, path, follow, out,                                                              \
                     [&](const char* real) { return UROCE_NEXT_OR(old, old_##kernels)(version, real, out); }); \
  }
UROCE_STAT(stat, __xstat, struct stat, kernel_stat, true)
UROCE_STAT(stat64, __xstat64, struct stat64, kernel_stat, true)
UROCE_STAT(lstat, __lxstat, struct stat, kernel_lstat, false)
UROCE_STAT(lstat64, __lxstat64, struct stat64, kernel_lstat, false)

#define UROCE_FSTAT(name, old, Status)                                                 \
  UROCE_EXPORT int name(int fd, Status* out) __THROW {                                 \
    return corrected(UROCE_NEXT_OR(name, kernel_fstat)(fd, out), fd, out);             \
  }                                                                                    \
  UROCE_EXPORT int old(int version, int fd, Status* out) {                             \
    return corrected(UROCE_NEXT_OR(old, old_kernel_fstat)(version, fd, out), fd, out); \
  }
UROCE_FSTAT(fstat, __fxstat, struct stat)
UROCE_FSTAT(fstat64, __fxstat64, struct stat64)

#define UROCE_FSTATAT(name, old, Status)                                                       \
  UROCE_EXPORT int name(int directory, const char* path, Status* out, int flags) __THROW {     \
    return status_by_flags(directory, path, out, flags, [&](const char* real) {                \
      return UROCE_NEXT_OR(name, kernel_fstatat)(directory, real, out, flags);                 \
    });                                                                                        \
  }                                                                                            \
  UROCE_EXPORT int old(int version, int directory, const char* path, Status* out, int flags) { \
    return status_by_flags(directory, path, out, flags, [&](const char* real) {                \
      return UROCE_NEXT_OR(old, old_kernel_fstatat)(version, directory, real, out, flags);     \
    });                                                                                        \
  }
UROCE_FSTATAT(fstatat, __fxstatat, struct stat)
UROCE_FSTATAT(fstatat64, __fxstatat64, struct stat64)
// NOLINTEND(cppcoreguidelines-macro-usage)

UROCE_EXPORT int statx(int directory, const char* path, int flags, unsigned int mask, struct statx* out) __THROW {
  const int status = answer(
      directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, -1,
      [&](const char* real) { return UROCE_NEXT(statx)(directory, real, flags, mask, out); },
      [&](const Where& where) {
        const struct statx ours = extended_status_of(where.path, *where.node);
        return give(out, &ours, sizeof ours) ? 0 : -1;
      });
  if (status == 0 && means_descriptor(path, flags) && may_be_ours(out->stx_mode, out->stx_nlink)) {
    const int error = errno;
    if (const auto ours = path_of_descriptor(directory)) {
      const uroce::view::Node* const node = tree().find(*ours);
      if (node != nullptr) *out = extended_status_of(*ours, *node);
    }
    errno = error;
  }
  return status;
}
