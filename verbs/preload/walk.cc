// SPDX-License-Identifier: Apache-2.0
// ftw(3) and nftw(3): libc's walk by functions of its own, which find nothing of the view. Ours walks by functions that
// serve both file systems, since links lead from one to the other.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/os/fd.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/where.h"

namespace uroce::preload {
namespace {

using Visit = std::function<int(const char* path, const struct stat* status, int type, struct FTW* place)>;

class Walk {
 public:
  Walk(std::string path, int flags, Visit visit) : path_(std::move(path)), flags_(flags), visit_(std::move(visit)) {}

  int run() {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
    const std::size_t base = path_.rfind('/') + 1;  // 0 without any.
    place_.base = static_cast<int>(base);
    if (!has(FTW_CHDIR)) return begin(path_);
    const engine::Fd before(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!before || (base != 0 && ::chdir(path_.substr(0, base).c_str()) != 0)) return -1;
    const int result = begin(path_.substr(base));
    return ::fchdir(before.get()) == 0 ? result : -1;
  }

 private:
  bool has(int flag) const { return (flags_ & flag) != 0; }
  int visit(const struct stat& status, int type) { return visit_(path_.c_str(), &status, type, &place_); }

  int begin(const std::string& name) {
    struct stat status {};
    const int type = look_at(AT_FDCWD, name.c_str(), status);
    if (type < 0 || type == FTW_NS) return -1;
    device_ = status.st_dev;
    const int result = take(AT_FDCWD, name.c_str(), status, type);
    return has(FTW_ACTIONRETVAL) && (result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS) ? 0 : result;
  }

  /// Its type, -1 on an error that ends the walk.
  int look_at(int parent, const char* name, struct stat& status) const {
    if (::fstatat(parent, name, &status, has(FTW_PHYS) ? AT_SYMLINK_NOFOLLOW : 0) == 0)
      return S_ISDIR(status.st_mode) ? FTW_D : S_ISLNK(status.st_mode) ? FTW_SL : FTW_F;
    if (errno != EACCES && errno != ENOENT) return -1;
    const int error = errno;
    const bool leads_nowhere = !has(FTW_PHYS) && ::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    errno = error;
    return leads_nowhere && S_ISLNK(status.st_mode) ? FTW_SLN : FTW_NS;
  }

  /// What `path_` names, which is `name` at the directory `parent`. Other than 0: the walk ends, or as
  /// FTW_ACTIONRETVAL has it.
  int take(int parent, const char* name, const struct stat& status, int type) {
    if (has(FTW_MOUNT) && type != FTW_NS && status.st_dev != device_) return 0;
    if (type != FTW_D) return visit(status, type);
    // A directory to which links lead is visited once.
    if (!has(FTW_PHYS) && !known_.emplace(status.st_dev, status.st_ino).second) return 0;
    const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const stream = fd < 0 ? nullptr : ::fdopendir(fd);
    if (stream == nullptr) {
      const int error = errno;
      if (fd >= 0) ::close(fd);
      errno = error;
      return error == EACCES ? visit(status, FTW_DNR) : -1;
    }
    int result = has(FTW_DEPTH) ? 0 : visit(status, FTW_D);
    if (result == 0) result = take_entries(fd, stream);
    if (result == 0 && has(FTW_DEPTH)) result = visit(status, FTW_DP);
    const int error = errno;
    ::closedir(stream);
    errno = error;
    const bool goes_on = has(FTW_ACTIONRETVAL) ? result != -1 && result != FTW_STOP : result == 0;
    if (has(FTW_CHDIR) && goes_on && parent != AT_FDCWD && ::fchdir(parent) != 0) return -1;
    return result;
  }

  int take_entries(int fd, DIR* stream) {
    if (has(FTW_CHDIR) && ::fchdir(fd) != 0) return -1;
    const struct FTW before = place_;
    const std::size_t size = path_.size();
    if (!path_.ends_with('/')) path_ += '/';
    const std::size_t base = path_.size();
    place_ = {.base = static_cast<int>(base), .level = before.level + 1};
    int result = 0;
    const dirent* entry = nullptr;
    while (result == 0 && (entry = ::readdir(stream)) != nullptr) {
      const std::string_view name(entry->d_name);
      if (name == "." || name == "..") continue;
      path_.replace(base, std::string::npos, name);
      struct stat status {};
      const int type = look_at(fd, entry->d_name, status);
      result = type < 0 ? -1 : take(fd, entry->d_name, status, type);
      if (has(FTW_ACTIONRETVAL) && result == FTW_SKIP_SUBTREE) result = 0;
    }
    path_.resize(size);
    place_ = before;
    return has(FTW_ACTIONRETVAL) && result == FTW_SKIP_SIBLINGS ? 0 : result;
  }

  std::string path_;  ///< Of what is visited.
  int flags_;
  Visit visit_;
  struct FTW place_ {};
  dev_t device_ = 0;  ///< Where the walk began.
  std::set<std::pair<dev_t, ino_t>> known_;
};

/// ftw() has fewer types.
int plain_type(int type) { return type == FTW_SL ? FTW_F : type == FTW_SLN ? FTW_NS : type; }

bool begins_in_view(const char* path) { return look(AT_FDCWD, path, true).kind != Where::Kind::kReal; }

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only. struct stat64 is struct stat,
// as in stat.cc.
#define UROCE_FTW(name, Status, Call)                                                         \
  UROCE_EXPORT int name(const char* path, Call call, int descriptors) {                       \
    if (!begins_in_view(path)) return UROCE_NEXT(name)(path, call, descriptors);              \
    return Walk(path, 0,                                                                      \
                [call](const char* at, const struct stat* status, int type, struct FTW*) {    \
                  return call(at, reinterpret_cast<const Status*>(status), plain_type(type)); \
                })                                                                            \
        .run();                                                                               \
  }
UROCE_FTW(ftw, struct stat, __ftw_func_t)
UROCE_FTW(ftw64, struct stat64, __ftw64_func_t)

#define UROCE_NFTW(name, Status, Call)                                                           \
  UROCE_EXPORT int name(const char* path, Call call, int descriptors, int flags) {               \
    if (!begins_in_view(path)) return UROCE_NEXT(name)(path, call, descriptors, flags);          \
    return Walk(path, flags,                                                                     \
                [call](const char* at, const struct stat* status, int type, struct FTW* place) { \
                  return call(at, reinterpret_cast<const Status*>(status), type, place);         \
                })                                                                               \
        .run();                                                                                  \
  }
UROCE_NFTW(nftw, struct stat, __nftw_func_t)
UROCE_NFTW(nftw64, struct stat64, __nftw64_func_t)
// NOLINTEND(cppcoreguidelines-macro-usage)
