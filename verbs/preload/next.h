// SPDX-License-Identifier: Apache-2.0
// The functions that ours stand in front of.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cerrno>

namespace uroce::preload {

/// The function `name` that comes after ours in the search order: libc's, or that of another preloaded library. Null,
/// or `instead`, when there is none. Looked up once, for `place`; without a lock, since handlers of signals and
/// children of fork() come here, too.
inline void* next(std::atomic<void*>& place, const char* name, void* instead = nullptr) {
  if (void* const known = place.load(std::memory_order_relaxed)) return known;
  const int error = errno;  // What dlsym() leaves there is not the caller's business.
  void* const found = dlsym(RTLD_NEXT, name);
  errno = error;
  void* const function = found != nullptr ? found : instead;
  place.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace uroce::preload

/// UROCE_NEXT(open)(path, flags): calls the next open(). libc has all that we use.
#define UROCE_NEXT(name)                                                              \
  ([] {                                                                               \
    static constinit std::atomic<void*> place = nullptr;                              \
    return reinterpret_cast<decltype(&::name)>(::uroce::preload::next(place, #name)); \
  }())

/// The same for a function that an older libc does not have: `instead`, a function, takes its place there.
#define UROCE_NEXT_OR(name, instead)                                                \
  ([] {                                                                             \
    static constinit std::atomic<void*> place = nullptr;                            \
    return reinterpret_cast<decltype(&(instead))>(                                  \
        ::uroce::preload::next(place, #name, reinterpret_cast<void*>(&(instead)))); \
  }())
