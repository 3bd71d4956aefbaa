// SPDX-License-Identifier: Apache-2.0
// statfs(2), statvfs(3) and their kin: what they say about the view, as if it were in sysfs.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <climits>
#include <cstddef>

#include "verbs/preload/caller_memory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

// One structure under two names, where a file's size has 64 bits anyway.
static_assert(sizeof(struct statfs) == sizeof(struct statfs64));
static_assert(sizeof(struct statvfs) == sizeof(struct statvfs64));
static_assert(offsetof(struct statfs, f_flags) == offsetof(struct statfs64, f_flags));
static_assert(offsetof(struct statvfs, f_namemax) == offsetof(struct statvfs64, f_namemax));

constexpr long kBlockSize = 4096;

/// Nothing is stored there: no blocks, no inodes.
template <class Facts>
Facts facts() {
  Facts out{};
  out.f_bsize = kBlockSize;
  out.f_frsize = kBlockSize;
  if constexpr (requires { out.f_type; }) out.f_type = SYSFS_MAGIC;  // statvfs has it, too, in newer versions of glibc.
  if constexpr (requires { out.f_namelen; }) {
    out.f_namelen = NAME_MAX;
  } else {
    out.f_namemax = NAME_MAX;
  }
  return out;
}

template <class Facts>
int tell(Facts* out) {
  const Facts ours = facts<Facts>();
  return give(out, &ours, sizeof ours) ? 0 : -1;
}

bool is_in_view(int descriptor) {
  const int error = errno;
  const bool ours = path_of_descriptor(descriptor).has_value();
  errno = error;
  return ours;
}

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only.
#define UROCE_STATFS(name, Facts)                                                                \
  UROCE_EXPORT int name(const char* path, Facts* out) __THROW {                                  \
    return answer(                                                                               \
        AT_FDCWD, path, true, -1, [&](const char* real) { return UROCE_NEXT(name)(real, out); }, \
        [&](const Where&) { return tell(out); });                                                \
  }
UROCE_STATFS(statfs, struct statfs)
UROCE_STATFS(statfs64, struct statfs64)
UROCE_STATFS(statvfs, struct statvfs)
UROCE_STATFS(statvfs64, struct statvfs64)

#define UROCE_FSTATFS(name, Facts) \
  UROCE_EXPORT int name(int fd, Facts* out) __THROW { return is_in_view(fd) ? tell(out) : UROCE_NEXT(name)(fd, out); }
UROCE_FSTATFS(fstatfs, struct statfs)
UROCE_FSTATFS(fstatfs64, struct statfs64)
UROCE_FSTATFS(fstatvfs, struct statvfs)
UROCE_FSTATFS(fstatvfs64, struct statvfs64)
// NOLINTEND(cppcoreguidelines-macro-usage)
