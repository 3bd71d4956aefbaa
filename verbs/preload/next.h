// SPDX-License-Identifier: Apache-2.0
// The functions that ours stand in front of.
#pragma once

#include <dlfcn.h>

#include <cerrno>

namespace uroce::preload {

/// The function `name` that comes after ours in the search order: libc's, or that of another preloaded library.
inline void* find_next(const char* name) {
  const int error = errno;  // What dlsym() leaves there is not the caller's business.
  void* const found = dlsym(RTLD_NEXT, name);
  errno = error;
  return found;
}

}  // namespace uroce::preload

/// UROCE_NEXT(open)(path, flags): calls the next open(). Looked up once; libc has all that we use.
#define UROCE_NEXT(name)                                                                               \
  ([] {                                                                                                \
    static const auto kNext = reinterpret_cast<decltype(&::name)>(::uroce::preload::find_next(#name)); \
    return kNext;                                                                                      \
  }())

/// The same for a function that an older libc does not have: `instead`, a function, takes its place there.
#define UROCE_NEXT_OR(name, instead)                                                        \
  ([] {                                                                                     \
    static const auto kNext = [] {                                                          \
      void* const found = ::uroce::preload::find_next(#name);                               \
      return found != nullptr ? reinterpret_cast<decltype(&(instead))>(found) : &(instead); \
    }();                                                                                    \
    return kNext;                                                                           \
  }())
