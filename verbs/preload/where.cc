// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/where.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>

#include "proto/base/made_once.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/preload/caller_memory.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"
#include "verbs/preload/working_directory.h"
#include "verbs/view/sysfs.h"

namespace uroce::preload {
namespace {

/// Looked at for every path that a program opens, hence no more than a filter: all our roots are below /sys and /dev,
/// and have one of these words in them.
bool has_our_word(std::string_view path) {
  for (const std::string_view word : {"infiniband", "uroce", "rdma_cm"}) {
    if (path.find(word) != std::string_view::npos) return true;
  }
  return false;
}
bool is_below_sys_or_dev(std::string_view path) {
  const std::size_t start = path.find_first_not_of('/');
  if (start == std::string_view::npos || start == 0) return false;
  path.remove_prefix(start);
  return path.starts_with("sys/") || path.starts_with("dev/");
}

/// The path of a real directory, or "".
std::string real_path_of(int directory) {
  std::array<char, PATH_MAX> path{};
  if (directory == AT_FDCWD) return UROCE_NEXT(getcwd)(path.data(), path.size()) == nullptr ? "" : path.data();
  return link_of_descriptor(directory);
}

/// The absolute path that may be ours, or "".
std::string absolute(int directory, std::string_view path) {
  if (path.starts_with('/')) return has_our_word(path) && is_below_sys_or_dev(path) ? std::string(path) : "";
  const auto ours = directory == AT_FDCWD ? working_directory() : path_of_descriptor(directory);
  if (ours) return *ours + '/' + std::string(path);
  if (!has_our_word(path)) return "";
  const std::string base = real_path_of(directory);
  const std::string full = base + '/' + std::string(path);
  return base.starts_with('/') && is_below_sys_or_dev(full) ? full : "";  // The base may be / itself.
}

}  // namespace

const view::Tree& tree() {
  static constinit std::atomic<view::Tree*> made = nullptr;
  return made_once(made, [] { return std::make_unique<view::Tree>(view::make_sysfs(ibv::nic_source())); });
}

Where look(int directory, const char* path, bool follow) {
  Where where;
  if (path == nullptr || !can_read(path) || *path == '\0') return where;
  const int error = errno;
  if (const std::string full = absolute(directory, path); !full.empty() && !ibv::is_inside_device()) {
    view::Resolution found = tree().resolve(full, follow);
    where.path = std::move(found.path);
    where.node = found.node;
    where.error = found.error;
    switch (found.kind) {
      case view::Resolution::Kind::kOutside:
        where.kind = found.through_us ? Where::Kind::kMoved : Where::Kind::kReal;
        break;
      case view::Resolution::Kind::kFound:
        where.kind = Where::Kind::kOurs;
        break;
      case view::Resolution::Kind::kError:
        where.kind = Where::Kind::kError;
        break;
    }
  }
  errno = error;
  return where;
}

}  // namespace uroce::preload
