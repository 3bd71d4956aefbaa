// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/working_directory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "proto/base/no_cancellation.h"
#include "verbs/preload/borrowed_memory.h"
#include "verbs/preload/caller_memory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/older_libc.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

constexpr std::string_view kName = "uroce-cwd:";
constexpr std::string_view kLinkBegin = "/memfd:uroce-cwd:", kLinkEnd = " (deleted)";
/// Where programs keep no descriptors of their own: the one with the name is the first free one from here, or none.
constexpr int kFirst = 700, kPlaces = 8;
/// Lower where the limit is.
int first_place() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(kFirst, std::max<rlim_t>(limit.rlim_cur, kPlaces) - kPlaces));
}

constexpr int kUnknown = -2, kNone = -1;
constinit std::atomic<int> holder = kUnknown;  ///< The descriptor with the name.

/// A child has been somewhere, and `holder` is not all that there is to know.
constinit std::atomic<bool> was_borrowed = false;

std::optional<std::string> path_in_name_of(int descriptor) {
  const std::string link = link_of_descriptor(descriptor);
  if (!link.starts_with(kLinkBegin) || !link.ends_with(kLinkEnd)) return std::nullopt;
  return link.substr(kLinkBegin.size(), link.size() - kLinkBegin.size() - kLinkEnd.size());
}

/// Every descriptor with a name, whatever the limit was when it was made. False: the system doesn't tell.
template <class Do>
bool for_each_named(Do what) {
  const NoCancellation whole;
  std::error_code error;
  // Not /proc/self: that is the main thread, which may have ended.
  // One by one, and not entries_of(): the heap is the program's, and this may be any call of it.
  std::filesystem::directory_iterator entry("/proc/thread-self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto descriptor = static_cast<int>(std::strtol(entry->path().filename().c_str(), nullptr, 10));
    if (const auto path = path_in_name_of(descriptor)) what(descriptor, *path);
  }
  return !error;
}

/// The real directory that stands for `path`: the deepest one above it. The next stat() is not asked: that of another
/// preloaded library may come back to ours, for which `path` is real.
std::string real_directory_for(std::string path) {
  struct stat status {};
  do {
    path.resize(path.rfind('/'));
  } while (!path.empty() && kernel_stat(path.c_str(), &status) != 0);
  return path.empty() ? "/" : path;
}

/// What this process is in: as it was made by the one that has executed it, or as a child of vfork() that has changed
/// it.
int find_own() {
  std::array<char, PATH_MAX> now{};
  int found = kNone;
  if (UROCE_NEXT(getcwd)(now.data(), now.size()) == nullptr) return found;
  const bool is_told = for_each_named([&](int descriptor, const std::string& path) {
    if (real_directory_for(path) == now.data()) found = descriptor;
  });
  return is_told ? found : kUnknown;
}

/// To be called before the directory changes, too.
int find_holder() {
  if (was_borrowed && borrows_memory()) return find_own();
  int descriptor = holder.load();
  if (descriptor != kUnknown) return descriptor;
  const int found = find_own();
  return holder.compare_exchange_strong(descriptor, found) ? found : descriptor;
}

void hold(int descriptor) {
  const bool borrows = borrows_memory();
  const int before = borrows ? holder.load() : holder.exchange(descriptor);
  if (before == kNone && !(borrows && (was_borrowed || descriptor != kNone))) return;
  if (borrows) was_borrowed = true;
  for_each_named([descriptor](int other, const std::string&) {
    if (other != descriptor) UROCE_NEXT(close)(other);
  });
}

/// A descriptor with the name; -1 with errno when the system refuses.
int make_named(const std::string& path) {
  const int made = ::memfd_create((std::string(kName) + path).c_str(), MFD_CLOEXEC);
  if (made < 0) return -1;
  const int named = ::fcntl(made, F_DUPFD, first_place());
  const int error = errno;
  UROCE_NEXT(close)(made);
  errno = error;
  return named;
}

int enter(const std::string& path) {
  const NoCancellation whole;
  const int named = make_named(path);
  if (named < 0) return -1;
  const int status = UROCE_NEXT(chdir)(real_directory_for(path).c_str());
  if (status != 0) {
    UROCE_NEXT(close)(named);
  } else {
    hold(named);
  }
  return status;
}

/// After a call that would have changed to a real directory.
int leave_if_done(int status) {
  if (status == 0) hold(kNone);
  return status;
}

template <class Return>
Return fail(int error, Return failure) {
  errno = error;
  return failure;
}

/// getcwd(3), with the extension that it allocates.
char* write_working_directory(const std::string& path, char* to, std::size_t size) {
  const std::size_t needed = path.size() + 1;
  if (to == nullptr && size == 0) return ::strdup(path.c_str());
  if (size == 0) return fail<char*>(EINVAL, nullptr);
  if (size < needed) return fail<char*>(ERANGE, nullptr);
  if (to != nullptr) return give(to, path.c_str(), needed) ? to : nullptr;
  char* const made = static_cast<char*>(std::malloc(size));
  if (made != nullptr) std::memcpy(made, path.c_str(), needed);
  return made;
}

}  // namespace

std::optional<std::string> working_directory() {
  const int descriptor = find_holder();
  return descriptor < 0 ? std::nullopt : path_in_name_of(descriptor);
}

bool names_working_directory(int descriptor) {
  if (!was_borrowed || !borrows_memory()) {
    // This is asked for every descriptor that a program closes.
    const int known = holder.load();
    if (known == kUnknown ? descriptor < first_place() : descriptor != known) return false;
  }
  const int error = errno;
  const bool names = path_in_name_of(descriptor).has_value();
  errno = error;
  return names;
}

int descriptor_of_working_directory() {
  const int error = errno;
  const int descriptor = find_holder();
  const bool names = descriptor >= 0 && path_in_name_of(descriptor);  // Else the program has put another one there.
  errno = error;
  return names ? descriptor : kNone;
}

}  // namespace uroce::preload

using namespace uroce::preload;

extern "C" char* __getcwd_chk(char* to, std::size_t size, std::size_t room);

UROCE_EXPORT int chdir(const char* path) __THROW {
  const int error = errno;
  find_holder();
  errno = error;
  return answer(
      AT_FDCWD, path, true, -1, [](const char* real) { return leave_if_done(UROCE_NEXT(chdir)(real)); },
      [](const Where& where) {
        return where.node->kind == uroce::view::Node::Kind::kDirectory ? enter(where.path) : fail(ENOTDIR, -1);
      });
}
UROCE_EXPORT int fchdir(int fd) __THROW {
  const int error = errno;
  find_holder();
  const auto path = path_of_descriptor(fd);
  const auto* const node = path ? tree().find(*path) : nullptr;
  errno = error;
  if (node == nullptr) return leave_if_done(UROCE_NEXT(fchdir)(fd));
  return node->kind == uroce::view::Node::Kind::kDirectory ? enter(*path) : fail(ENOTDIR, -1);
}

/// The answer for a process that is in the view, or what `real` says.
template <class Ours, class Real>
static char* in_view_or(Ours ours, Real real) {
  const int error = errno;
  const auto path = working_directory();
  errno = error;
  return path ? ours(*path) : real();
}

UROCE_EXPORT char* getcwd(char* to, std::size_t size) __THROW {
  return in_view_or([&](const std::string& path) { return write_working_directory(path, to, size); },
                    [&] { return UROCE_NEXT(getcwd)(to, size); });
}
// With _FORTIFY_SOURCE; `room` is what there is at `to`. The next function aborts when it is too small.
UROCE_EXPORT char* __getcwd_chk(char* to, std::size_t size, std::size_t room) {
  return in_view_or([&](const std::string& path) { return write_working_directory(path, to, std::min(size, room)); },
                    [&] { return UROCE_NEXT(__getcwd_chk)(to, size, room); });
}
UROCE_EXPORT char* get_current_dir_name() __THROW {
  return in_view_or([](const std::string& path) { return ::strdup(path.c_str()); },
                    [] { return UROCE_NEXT(get_current_dir_name)(); });
}
