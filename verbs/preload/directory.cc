// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>

#include "proto/base/made_once.h"
#include "verbs/preload/status.h"

namespace uroce::preload {
namespace {

/// At a time, in one process. They all lie in one array, so that a DIR of libc can be told from one of ours by its
/// address.
constexpr std::size_t kMaxDirectories = 1024;
using Pool = std::array<Directory, kMaxDirectories>;

std::atomic<Pool*> pool = nullptr;  ///< Made with the first directory.

unsigned char type_of(view::Node::Kind kind) {
  switch (kind) {
    case view::Node::Kind::kDirectory:
      return DT_DIR;
    case view::Node::Kind::kFile:
      return DT_REG;
    case view::Node::Kind::kLink:
      return DT_LNK;
    case view::Node::Kind::kCharDevice:
      return DT_CHR;
  }
  return DT_UNKNOWN;
}

struct dirent make_entry(const std::string& directory, const std::string& name, view::Node::Kind kind,
                         std::size_t next) {
  struct dirent entry {};
  const std::string path = name == "." ? directory : directory + '/' + name;
  entry.d_ino = inode_of(path);
  entry.d_off = static_cast<off_t>(next);
  entry.d_reclen = sizeof entry;
  entry.d_type = type_of(kind);
  name.copy(entry.d_name, sizeof entry.d_name - 1);
  return entry;
}

}  // namespace

Directory* Directory::open(int fd, const std::string& path) {
  for (Directory& directory : made_once(pool)) {
    if (directory.used_.exchange(true)) continue;
    directory.fd_ = fd;
    directory.next_ = 0;
    auto& entries = directory.entries_;
    entries.clear();
    for (const char* name : {".", ".."}) {
      entries.push_back(make_entry(path, name, view::Node::Kind::kDirectory, entries.size() + 1));
    }
    for (const view::Entry& entry : tree().list(path)) {
      entries.push_back(make_entry(path, entry.name, entry.kind, entries.size() + 1));
    }
    return &directory;
  }
  errno = EMFILE;
  return nullptr;
}

Directory* Directory::from(DIR* stream) {
  Pool* const all = pool.load();
  const auto* const address = reinterpret_cast<const std::byte*>(stream);
  if (all == nullptr || std::less<>()(address, reinterpret_cast<std::byte*>(all->data())) ||
      !std::less<>()(address, reinterpret_cast<std::byte*>(all->data() + all->size()))) {
    return nullptr;
  }
  return reinterpret_cast<Directory*>(stream);
}

void Directory::close() {
  ::close(fd_);
  used_ = false;
}

struct dirent* Directory::read() {
  return next_ < entries_.size() ? &entries_[next_++] : nullptr;
}

}  // namespace uroce::preload
