// SPDX-License-Identifier: Apache-2.0
#pragma once

extern "C" {
// Of LeakSanitizer; null in programs that are built without.
[[gnu::weak]] void __lsan_disable();  // NOLINT(bugprone-reserved-identifier)
[[gnu::weak]] void __lsan_enable();   // NOLINT(bugprone-reserved-identifier)
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
