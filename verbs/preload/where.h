// SPDX-License-Identifier: Apache-2.0
// Which paths are ours.
#pragma once

#include <cerrno>
#include <string>

#include "proto/base/no_cancellation.h"
#include "verbs/view/tree.h"

namespace uroce::preload {

/// The view of the NICs of this process; made at the first call, never destroyed.
const view::Tree& tree();

/// Where a path leads that a program gives to libc.
struct Where {
  enum class Kind : std::uint8_t {
    kReal,   ///< To the real file system: libc knows.
    kMoved,  ///< To the real file system at `path`: the way there is ours.
    kOurs,   ///< To `node`, whose canonical path is `path`.
    kError,  ///< Nowhere; `error` is an errno value.
  };
  Kind kind = Kind::kReal;
  std::string path;
  const view::Node* node = nullptr;
  int error = 0;
};

/// `directory` and `path` as openat(2) has them; `follow`: also a symbolic link at the end. Leaves errno alone.
Where look(int directory, const char* path, bool follow);

/// Answers for a path, which is no place where a thread is cancelled unless libc answers: `ours(where)` when it is
/// ours, else `real(path)` with the path that libc is to have. Errors give `failure` and errno.
template <class Return, class Real, class Ours>
Return answer(int directory, const char* path, bool follow, Return failure, Real real, Ours ours) {
  const Where where = look(directory, path, follow);
  switch (where.kind) {
    case Where::Kind::kReal:
      return real(path);
    case Where::Kind::kMoved:
      return real(where.path.c_str());
    case Where::Kind::kOurs: {
      const NoCancellation whole;
      return ours(where);
    }
    case Where::Kind::kError:
      break;
  }
  errno = where.error;
  return failure;
}

}  // namespace uroce::preload
