// SPDX-License-Identifier: Apache-2.0
#pragma once

extern "C" {
// Of LeakSanitizer; null in programs that are built without.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
[[gnu::weak]] void __lsan_disable();
[[gnu::weak]] void __lsan_enable();
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
}

namespace uroce::engine {

/// While it lives, LeakSanitizer takes nothing for lost that this thread allocates, nor what that points to. For
/// threads of ours: a child of fork() has the memory of its parent's threads and not their stacks, which alone tell
/// where some of it is.
class NoLeakCheck {
 public:
  NoLeakCheck() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~NoLeakCheck() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
  NoLeakCheck(const NoLeakCheck&) = delete;
  NoLeakCheck& operator=(const NoLeakCheck&) = delete;
};

}  // namespace uroce::engine
