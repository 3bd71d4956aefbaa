// SPDX-License-Identifier: Apache-2.0
// <dirent.h> and glob(3).
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "verbs/preload/directory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"

namespace uroce::preload {
namespace {

// One structure under two names, where a file's size has 64 bits anyway.
static_assert(sizeof(struct dirent) == sizeof(struct dirent64));
static_assert(offsetof(struct dirent, d_name) == offsetof(struct dirent64, d_name));

DIR* const kNoDirectory = nullptr;

DIR* open_directory(const Where& where) {
  const int fd = open_node(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  Directory* const directory = Directory::open(fd, where.path);
  if (directory != nullptr) return directory->stream();
  ::close(fd);
  return nullptr;
}

template <class Entry>
int read_into(Directory& directory, Entry* entry, Entry** result) {
  const struct dirent* const next = directory.read();
  *result = nullptr;
  if (next == nullptr) return 0;
  std::memcpy(entry, next, sizeof *entry);
  *result = entry;
  return 0;
}

/// scandir(3) of one of ours. The array and its elements are to be freed by the caller, each by itself.
template <class Entry>
int scan(const Where& where, Entry*** list, int (*wanted)(const Entry*), int (*compare)(const Entry**, const Entry**)) {
  DIR* const stream = open_directory(where);
  if (stream == nullptr) return -1;
  Directory& directory = *Directory::from(stream);
  std::vector<Entry*> found;
  while (struct dirent* const next = directory.read()) {
    auto* const entry = reinterpret_cast<Entry*>(next);
    if (wanted != nullptr && wanted(entry) == 0) continue;
    auto* const copy = static_cast<Entry*>(std::malloc(sizeof(Entry)));
    std::memcpy(copy, entry, sizeof *copy);
    found.push_back(copy);
  }
  directory.close();
  *list = static_cast<Entry**>(std::malloc(std::max<std::size_t>(found.size(), 1) * sizeof(Entry*)));
  std::copy(found.begin(), found.end(), *list);
  if (compare != nullptr) {
    std::qsort(*list, found.size(), sizeof(Entry*), reinterpret_cast<int (*)(const void*, const void*)>(compare));
  }
  return static_cast<int>(found.size());
}

/// True when glob() may find something of ours, which it would not, since it asks libc's own functions.
bool globs_ours(const char* pattern, int flags) {
  if ((flags & GLOB_ALTDIRFUNC) != 0 || pattern == nullptr) return false;
  const std::string_view text(pattern);
  return text.starts_with("/sys/class/infini") || text.starts_with("/dev/infini") ||
         text.starts_with("/sys/devices/virtual/uroce");
}

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

UROCE_EXPORT DIR* opendir(const char* path) {
  return answer(
      AT_FDCWD, path, true, kNoDirectory, [](const char* real) { return UROCE_NEXT(opendir)(real); },
      [](const Where& where) { return open_directory(where); });
}

UROCE_EXPORT DIR* fdopendir(int fd) {
  const int error = errno;
  const auto path = path_of_descriptor(fd);
  errno = error;
  if (!path) return UROCE_NEXT(fdopendir)(fd);
  const uroce::view::Node* const node = tree().find(*path);
  if (node == nullptr || node->kind != uroce::view::Node::Kind::kDirectory) {
    errno = ENOTDIR;
    return nullptr;
  }
  Directory* const directory = Directory::open(fd, *path);
  return directory == nullptr ? nullptr : directory->stream();
}

UROCE_EXPORT struct dirent* readdir(DIR* stream) {
  Directory* const ours = Directory::from(stream);
  return ours != nullptr ? ours->read() : UROCE_NEXT(readdir)(stream);
}
UROCE_EXPORT struct dirent64* readdir64(DIR* stream) {
  Directory* const ours = Directory::from(stream);
  return ours != nullptr ? reinterpret_cast<struct dirent64*>(ours->read()) : UROCE_NEXT(readdir64)(stream);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // These two are; programs call them all the same.
UROCE_EXPORT int readdir_r(DIR* stream, struct dirent* entry, struct dirent** result) {
  Directory* const ours = Directory::from(stream);
  return ours != nullptr ? read_into(*ours, entry, result) : UROCE_NEXT(readdir_r)(stream, entry, result);
}
UROCE_EXPORT int readdir64_r(DIR* stream, struct dirent64* entry, struct dirent64** result) {
  Directory* const ours = Directory::from(stream);
  return ours != nullptr ? read_into(*ours, entry, result) : UROCE_NEXT(readdir64_r)(stream, entry, result);
}
#pragma GCC diagnostic pop

UROCE_EXPORT int closedir(DIR* stream) {
  Directory* const ours = Directory::from(stream);
  if (ours == nullptr) return UROCE_NEXT(closedir)(stream);
  ours->close();
  return 0;
}
UROCE_EXPORT int dirfd(DIR* stream) __THROW {
  const Directory* const ours = Directory::from(stream);
  return ours != nullptr ? ours->fd() : UROCE_NEXT(dirfd)(stream);
}
UROCE_EXPORT void rewinddir(DIR* stream) __THROW {
  Directory* const ours = Directory::from(stream);
  ours != nullptr ? ours->seek(0) : UROCE_NEXT(rewinddir)(stream);
}
UROCE_EXPORT void seekdir(DIR* stream, long position) __THROW {
  Directory* const ours = Directory::from(stream);
  ours != nullptr ? ours->seek(position) : UROCE_NEXT(seekdir)(stream, position);
}
UROCE_EXPORT long telldir(DIR* stream) __THROW {
  const Directory* const ours = Directory::from(stream);
  return ours != nullptr ? ours->position() : UROCE_NEXT(telldir)(stream);
}

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only.
#define UROCE_SCANDIR(name, Entry)                                                                                 \
  UROCE_EXPORT int name(const char* path, Entry*** list, int (*wanted)(const Entry*),                              \
                        int (*compare)(const Entry**, const Entry**)) {                                            \
    return answer(                                                                                                 \
        AT_FDCWD, path, true, -1, [&](const char* real) { return UROCE_NEXT(name)(real, list, wanted, compare); }, \
        [&](const Where& where) { return scan(where, list, wanted, compare); });                                   \
  }
UROCE_SCANDIR(scandir, struct dirent)
UROCE_SCANDIR(scandir64, struct dirent64)

// libc's glob() takes other functions for looking around. Ours serve both file systems.
#define UROCE_GLOB(name, Glob, Entry, Status, reader, linked, followed)                                            \
  UROCE_EXPORT int name(const char* pattern, int flags, int (*on_error)(const char*, int), Glob* result) __THROW { \
    if (!globs_ours(pattern, flags)) return UROCE_NEXT(name)(pattern, flags, on_error, result);                    \
    result->gl_opendir = [](const char* path) { return static_cast<void*>(opendir(path)); };                       \
    result->gl_readdir = [](void* stream) -> Entry* { return reader(static_cast<DIR*>(stream)); };                 \
    result->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };                               \
    result->gl_lstat = [](const char* path, Status* out) { return linked(path, out); };                            \
    result->gl_stat = [](const char* path, Status* out) { return followed(path, out); };                           \
    return UROCE_NEXT(name)(pattern, flags | GLOB_ALTDIRFUNC, on_error, result);                                   \
  }
UROCE_GLOB(glob, glob_t, struct dirent, struct stat, readdir, lstat, stat)
UROCE_GLOB(glob64, glob64_t, struct dirent64, struct stat64, readdir64, lstat64, stat64)
// NOLINTEND(cppcoreguidelines-macro-usage)
