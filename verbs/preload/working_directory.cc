// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/working_directory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "engine/os/fd.h"
#include "verbs/preload/caller_memory.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

constexpr std::string_view kName = "uroce-cwd:";
constexpr std::string_view kLinkBegin = "/memfd:uroce-cwd:", kLinkEnd = " (deleted)";
/// Where programs keep no descriptors of their own: the one with the name is one of so many from here, or none.
constexpr int kFirst = 700, kPlaces = 8;
/// Lower where the limit is: programs that run each other have the same one.
int first_place() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(kFirst, std::max<rlim_t>(limit.rlim_cur, kPlaces) - kPlaces));
}

constexpr int kUnknown = -2, kNone = -1;
std::atomic<int> holder = kUnknown;  ///< The descriptor with the name.

/// Whose memory this is. A child of vfork() has it too, and a working directory and descriptors of its own.
std::atomic<pid_t> owner = ::getpid();
[[maybe_unused]] const int kWatchesFork = ::pthread_atfork(nullptr, nullptr, [] { owner = ::getpid(); });

std::optional<std::string> path_in_name_of(int descriptor) {
  const std::string link = link_of_descriptor(descriptor);
  if (!link.starts_with(kLinkBegin) || !link.ends_with(kLinkEnd)) return std::nullopt;
  return link.substr(kLinkBegin.size(), link.size() - kLinkBegin.size() - kLinkEnd.size());
}

/// What the process was in that has executed this one.
int find_inherited() {
  std::array<char, PATH_MAX> now{};
  if (UROCE_NEXT(getcwd)(now.data(), now.size()) == nullptr) return kNone;
  const int first = first_place();
  for (int descriptor = first; descriptor < first + kPlaces; ++descriptor) {
    const auto path = path_in_name_of(descriptor);
    if (path && path->starts_with(now.data())) return descriptor;
  }
  return kNone;
}

void hold(int descriptor) {
  const bool borrows_memory = owner != ::getpid();
  const int before = borrows_memory ? holder.load() : holder.exchange(descriptor);
  if (before < 0 || !path_in_name_of(before)) return;
  ::close(before);
  // Under the number that the memory names: it is the child's own, and the parent's is as it was.
  if (borrows_memory && descriptor >= 0) ::fcntl(descriptor, F_DUPFD, before), ::close(descriptor);
}

int enter(const std::string& path) {
  const engine::Fd made(::memfd_create((std::string(kName) + path).c_str(), 0));
  const int kept = made ? ::fcntl(made.get(), F_DUPFD, first_place()) : -1;
  if (kept < 0) return -1;
  std::string real = path;
  do {
    real.resize(real.rfind('/'));
  } while (UROCE_NEXT(chdir)(real.empty() ? "/" : real.c_str()) != 0 && !real.empty());
  hold(kept);
  return 0;
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
  int descriptor = holder.load();
  if (descriptor == kUnknown) {
    const int found = find_inherited();
    if (holder.compare_exchange_strong(descriptor, found)) descriptor = found;
  }
  return descriptor < 0 ? std::nullopt : path_in_name_of(descriptor);
}

}  // namespace uroce::preload

using namespace uroce::preload;

extern "C" char* __getcwd_chk(char* to, std::size_t size, std::size_t room);

UROCE_EXPORT int chdir(const char* path) __THROW {
  return answer(
      AT_FDCWD, path, true, -1, [](const char* real) { return leave_if_done(UROCE_NEXT(chdir)(real)); },
      [](const Where& where) {
        return where.node->kind == uroce::view::Node::Kind::kDirectory ? enter(where.path) : fail(ENOTDIR, -1);
      });
}
UROCE_EXPORT int fchdir(int fd) __THROW {
  const int error = errno;
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
