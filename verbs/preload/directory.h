// SPDX-License-Identifier: Apache-2.0
// Open directories of the view, in the place of libc's DIR.
#pragma once

#include <dirent.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "verbs/preload/where.h"

namespace uroce::preload {

class Directory {
 public:
  /// One for `fd`, which it takes over and which was opened at the directory `path` of the view. Null and errno
  /// (EMFILE) when there are too many.
  static Directory* open(int fd, const std::string& path);
  /// The one that `stream` is, or null if it is libc's.
  static Directory* from(DIR* stream);
  DIR* stream() { return reinterpret_cast<DIR*>(this); }

  void close();
  int fd() const { return fd_; }
  /// Null at the end. Valid until the next call.
  struct dirent* read();
  long position() const { return static_cast<long>(next_); }
  void seek(long position) { next_ = static_cast<std::size_t>(position); }

 private:
  std::atomic<bool> used_ = false;  ///< Whoever sets it has the rest.
  int fd_ = -1;
  std::size_t next_ = 0;
  std::vector<struct dirent> entries_;
};

}  // namespace uroce::preload
