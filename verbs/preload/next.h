// SPDX-License-Identifier: Apache-2.0
// The functions that ours stand in front of.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>

namespace uroce::preload {

/// The name of a function, as a template's argument.
template <std::size_t kSize>
struct Name {
  char text[kSize];
  constexpr Name(const char (&of)[kSize]) { std::copy_n(of, kSize, text); }  // NOLINT(google-explicit-constructor)
};

/// The function `kName` that comes after ours in the search order: libc's, or that of another preloaded library. It is
/// looked up when this library is loaded, or before by the first who needs it, such as another library's constructor.
/// Not later: dlsym() takes the loader's lock. A thread of ours that waits for that, while who has it waits for the
/// thread, as a plugin's constructor does that closes a device, would wait for ever.
template <Name kName>
class Next {
 public:
  /// Null, or `instead`, when there is none. Without a lock: handlers of signals and children of fork() come here, too.
  static void* function(void* instead = nullptr) {
    static_cast<void>(&kAtLoad);
    if (place.load(std::memory_order_relaxed) == nullptr) look_up();
    void* const found = place.load(std::memory_order_relaxed);
    return found != nothing() ? found : instead;
  }

 private:
  static void* nothing() { return &place; }
  /// Without a preload, a plugin may be loaded that names libc before what needs us: then libc does not come after us.
  static void* in_libc() {
    void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc == nullptr ? nullptr : dlsym(libc, kName.text);
  }
  static bool look_up() {
    const int error = errno;  // What dlsym() leaves there is not the caller's business.
    void* found = dlsym(RTLD_NEXT, kName.text);
    if (found == nullptr) found = in_libc();
    errno = error;
    place.store(found != nullptr ? found : nothing(), std::memory_order_relaxed);
    return true;
  }

  static inline constinit std::atomic<void*> place = nullptr;  ///< nothing(): there is no such function.
  static inline const bool kAtLoad = look_up();
};

}  // namespace uroce::preload

/// UROCE_NEXT(open)(path, flags): calls the next open(). libc has all that we use.
#define UROCE_NEXT(name) (reinterpret_cast<decltype(&::name)>(::uroce::preload::Next<#name>::function()))

/// The same for a function that an older libc does not have: `instead`, a function, takes its place there.
#define UROCE_NEXT_OR(name, instead) \
  (reinterpret_cast<decltype(&(instead))>(::uroce::preload::Next<#name>::function(reinterpret_cast<void*>(&(instead)))))
