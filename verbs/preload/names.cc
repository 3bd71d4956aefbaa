// SPDX-License-Identifier: Apache-2.0
// Functions that ask about a path without opening it: links, rights, extended attributes.
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "verbs/preload/caller_memory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

template <class Return>
Return fail(int error, Return failure) {
  errno = error;
  return failure;
}

/// What faccessat(2) says of one of ours, to anybody: everything can be read, nothing changed.
int rights(const Where& where, int wanted) {
  using Kind = view::Node::Kind;
  const Kind kind = where.node->kind;
  if ((wanted & ~(R_OK | W_OK | X_OK)) != 0) return fail(EINVAL, -1);
  const bool denied =
      ((wanted & W_OK) != 0 && kind != Kind::kCharDevice) || ((wanted & X_OK) != 0 && kind != Kind::kDirectory);
  return denied ? fail(EACCES, -1) : 0;
}

ssize_t read_target(const Where& where, char* to, std::size_t size) {
  if (where.node->kind != view::Node::Kind::kLink || size == 0) return fail<ssize_t>(EINVAL, -1);
  const std::size_t length = std::min(size, where.node->target.size());
  return give(to, where.node->target.data(), length) ? static_cast<ssize_t>(length) : -1;
}

/// `to`: PATH_MAX bytes, or null for memory of its own.
char* write_path(const Where& where, char* to) {
  if (to == nullptr) return ::strdup(where.path.c_str());
  std::memcpy(to, where.path.c_str(), where.path.size() + 1);  // Our paths are much shorter.
  return to;
}

/// readlinkat(2) with an empty path: the link that `descriptor` was opened at, with O_PATH. Nothing if it is none of
/// ours.
std::optional<ssize_t> read_own_target(int descriptor, const char* path, char* to, std::size_t size) {
  if (path == nullptr || !can_read(path) || *path != '\0') return std::nullopt;
  const int error = errno;
  const auto ours = path_of_descriptor(descriptor);
  const view::Node* const node = ours ? tree().find(*ours) : nullptr;
  errno = error;
  if (node == nullptr || node->kind != view::Node::Kind::kLink) return std::nullopt;
  return read_target({.kind = Where::Kind::kOurs, .path = *ours, .node = node}, to, size);
}

char* const kNoPath = nullptr;

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

extern "C" {
ssize_t __readlink_chk(const char* path, char* to, std::size_t size, std::size_t room);
ssize_t __readlinkat_chk(int directory, const char* path, char* to, std::size_t size, std::size_t room);
char* __realpath_chk(const char* path, char* to, std::size_t room);
}

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only.
#define UROCE_ACCESS(name)                                                                          \
  UROCE_EXPORT int name(const char* path, int wanted) __THROW {                                     \
    return answer(                                                                                  \
        AT_FDCWD, path, true, -1, [&](const char* real) { return UROCE_NEXT(name)(real, wanted); }, \
        [&](const Where& where) { return rights(where, wanted); });                                 \
  }
UROCE_ACCESS(access)
UROCE_ACCESS(eaccess)
UROCE_ACCESS(euidaccess)

UROCE_EXPORT int faccessat(int directory, const char* path, int wanted, int flags) __THROW {
  return answer(
      directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, -1,
      [&](const char* real) { return UROCE_NEXT(faccessat)(directory, real, wanted, flags); },
      [&](const Where& where) { return rights(where, wanted); });
}

UROCE_EXPORT ssize_t readlink(const char* path, char* to, std::size_t size) __THROW {
  return answer(
      AT_FDCWD, path, false, ssize_t{-1}, [&](const char* real) { return UROCE_NEXT(readlink)(real, to, size); },
      [&](const Where& where) { return read_target(where, to, size); });
}
UROCE_EXPORT ssize_t readlinkat(int directory, const char* path, char* to, std::size_t size) __THROW {
  if (const auto length = read_own_target(directory, path, to, size)) return *length;
  return answer(
      directory, path, false, ssize_t{-1},
      [&](const char* real) { return UROCE_NEXT(readlinkat)(directory, real, to, size); },
      [&](const Where& where) { return read_target(where, to, size); });
}
// With _FORTIFY_SOURCE; `room` is what there is at `to`. The next function aborts when it is too small.
UROCE_EXPORT ssize_t __readlink_chk(const char* path, char* to, std::size_t size, std::size_t room) {
  return answer(
      AT_FDCWD, path, false, ssize_t{-1},
      [&](const char* real) { return UROCE_NEXT(__readlink_chk)(real, to, size, room); },
      [&](const Where& where) { return read_target(where, to, std::min(size, room)); });
}
UROCE_EXPORT ssize_t __readlinkat_chk(int directory, const char* path, char* to, std::size_t size, std::size_t room) {
  if (const auto length = read_own_target(directory, path, to, std::min(size, room))) return *length;
  return answer(
      directory, path, false, ssize_t{-1},
      [&](const char* real) { return UROCE_NEXT(__readlinkat_chk)(directory, real, to, size, room); },
      [&](const Where& where) { return read_target(where, to, std::min(size, room)); });
}

UROCE_EXPORT char* realpath(const char* path, char* to) __THROW {
  return answer(
      AT_FDCWD, path, true, kNoPath, [&](const char* real) { return UROCE_NEXT(realpath)(real, to); },
      [&](const Where& where) { return write_path(where, to); });
}
UROCE_EXPORT char* __realpath_chk(const char* path, char* to, std::size_t room) {
  return answer(
      AT_FDCWD, path, true, kNoPath, [&](const char* real) { return UROCE_NEXT(__realpath_chk)(real, to, room); },
      [&](const Where& where) { return write_path(where, to); });
}
UROCE_EXPORT char* canonicalize_file_name(const char* path) __THROW {
  return answer(
      AT_FDCWD, path, true, kNoPath, [&](const char* real) { return UROCE_NEXT(canonicalize_file_name)(real); },
      [&](const Where& where) { return write_path(where, nullptr); });
}

// sysfs has none; `ls -l` asks.
#define UROCE_GETXATTR(name, follow)                                                                          \
  UROCE_EXPORT ssize_t name(const char* path, const char* attribute, void* value, std::size_t size) __THROW { \
    return answer(                                                                                            \
        AT_FDCWD, path, follow, ssize_t{-1},                                                                  \
        [&](const char* real) { return UROCE_NEXT(name)(real, attribute, value, size); },                     \
        [](const Where&) { return fail<ssize_t>(ENOTSUP, -1); });                                             \
  }
UROCE_GETXATTR(getxattr, true)
UROCE_GETXATTR(lgetxattr, false)
#define UROCE_LISTXATTR(name, follow)                                                                              \
  UROCE_EXPORT ssize_t name(const char* path, char* list, std::size_t size) __THROW {                              \
    return answer(                                                                                                 \
        AT_FDCWD, path, follow, ssize_t{-1}, [&](const char* real) { return UROCE_NEXT(name)(real, list, size); }, \
        [](const Where&) { return ssize_t{0}; });                                                                  \
  }
UROCE_LISTXATTR(listxattr, true)
UROCE_LISTXATTR(llistxattr, false)
// NOLINTEND(cppcoreguidelines-macro-usage)
