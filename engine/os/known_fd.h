// SPDX-License-Identifier: Apache-2.0
// Descriptors that are known again: programs close descriptors that are not theirs (daemons close all of them), and the
// numbers are other files' then.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "engine/os/fd.h"

namespace uroce::engine {

/// As fstat(2), and never our own (verbs/preload), which asks for locks that the caller may hold.
inline bool ask_status(int fd, struct stat& status) {
  return ::syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) == 0;
}

/// The file behind a descriptor. All rings, events and timers of the kernel count as one file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  /// Nothing if there is none.
  static std::optional<FileIdentity> of(int fd) {
    struct stat status {};
    if (!ask_status(fd, status)) return std::nullopt;
    return FileIdentity{status.st_dev, status.st_ino};
  }
  /// Whether `fd` is open, and this file's.
  bool is_behind(int fd) const { return of(fd) == *this; }
  bool operator==(const FileIdentity&) const = default;
};

/// Owns a descriptor as long as it is its own: another file's is not closed.
class KnownFd {
 public:
  KnownFd() = default;
  explicit KnownFd(Fd fd) : fd_(std::move(fd)), file_(FileIdentity::of(fd_.get())) {}
  KnownFd(KnownFd&&) = default;
  KnownFd& operator=(KnownFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~KnownFd() {
    if (!is_there()) static_cast<void>(fd_.release());
  }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// Whether it is still the file that it was.
  bool is_there() const { return file_ && file_->is_behind(fd_.get()); }

 private:
  Fd fd_;
  std::optional<FileIdentity> file_;
};

}  // namespace uroce::engine
