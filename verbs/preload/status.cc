// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/status.h"

#include <sys/sysmacros.h>

#include <ctime>

#include "proto/base/made_once.h"
#include "proto/base/spread.h"

namespace uroce::preload {
namespace {

constexpr unsigned int kMajor = 0, kMinor = 0x7572;  ///< The file system's: no other has them.
constexpr off_t kFileSize = 4096;                    ///< A page, whatever is in it: as in sysfs.
constexpr blksize_t kBlockSize = 4096;

/// When the view was made: the first time that somebody asks.
timespec birth() {
  static constinit std::atomic<timespec*> made = nullptr;
  return made_once(made, [] {
    auto now = std::make_unique<timespec>();
    clock_gettime(CLOCK_REALTIME, now.get());
    return now;
  });
}

mode_t mode_of(view::Node::Kind kind) {
  switch (kind) {
    case view::Node::Kind::kDirectory:
      return S_IFDIR | 0755;
    case view::Node::Kind::kFile:
      return S_IFREG | 0444;
    case view::Node::Kind::kLink:
      return S_IFLNK | 0777;
    case view::Node::Kind::kCharDevice:
      return S_IFCHR | 0666;
  }
  return 0;
}

nlink_t links_to(const std::string& path, const view::Node& node) {
  if (node.kind != view::Node::Kind::kDirectory) return 1;
  nlink_t links = 2;
  for (const view::Entry& entry : tree().list(path)) links += entry.kind == view::Node::Kind::kDirectory ? 1 : 0;
  return links;
}

statx_timestamp extended(const timespec& time) {
  statx_timestamp out{};
  out.tv_sec = time.tv_sec;
  out.tv_nsec = static_cast<std::uint32_t>(time.tv_nsec);
  return out;
}

}  // namespace

ino_t inode_of(std::string_view path) { return spread(path) | 1; }

struct stat status_of(const std::string& path, const view::Node& node) {
  struct stat status {};
  status.st_dev = makedev(kMajor, kMinor);
  status.st_ino = inode_of(path);
  status.st_mode = mode_of(node.kind);
  status.st_nlink = links_to(path, node);
  status.st_rdev = node.kind == view::Node::Kind::kCharDevice ? makedev(node.major, node.minor) : 0;
  if (node.kind == view::Node::Kind::kFile) {
    status.st_size = kFileSize;
    status.st_blocks = kFileSize / 512;  // Not 0: cp(1) takes such a file for a hole, and fills it up.
  }
  if (node.kind == view::Node::Kind::kLink) status.st_size = static_cast<off_t>(node.target.size());
  status.st_blksize = kBlockSize;
  status.st_atim = status.st_mtim = status.st_ctim = birth();
  return status;
}

struct statx extended_status_of(const std::string& path, const view::Node& node) {
  const struct stat status = status_of(path, node);
  struct statx out {};
  out.stx_mask = STATX_BASIC_STATS;
  out.stx_blksize = static_cast<std::uint32_t>(status.st_blksize);
  out.stx_nlink = static_cast<std::uint32_t>(status.st_nlink);
  out.stx_mode = static_cast<std::uint16_t>(status.st_mode);
  out.stx_ino = status.st_ino;
  out.stx_blocks = static_cast<std::uint64_t>(status.st_blocks);
  out.stx_size = static_cast<std::uint64_t>(status.st_size);
  out.stx_atime = extended(status.st_atim);
  out.stx_mtime = extended(status.st_mtim);
  out.stx_ctime = extended(status.st_ctim);
  out.stx_rdev_major = major(status.st_rdev);
  out.stx_rdev_minor = minor(status.st_rdev);
  out.stx_dev_major = kMajor;
  out.stx_dev_minor = kMinor;
  return out;
}

}  // namespace uroce::preload
