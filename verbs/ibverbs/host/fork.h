// SPDX-License-Identifier: Apache-2.0
// fork(): a NIC's threads stay with the parent, its descriptors are in both. A child finds every NIC abandoned: its
// verbs fail, the parent's go on, and opening a device again gives a fresh NIC.
#pragma once

#include <mutex>
#include <utility>

#include "engine/os/bounded_lock.h"
#include "proto/base/clock.h"

// <sys/single_threaded.h>, which older libraries do not have (tools/package/libc_floor.c).
extern "C" char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)

namespace uroce::ibv {

/// Others that have locks: `before_nics` locks what is taken before the locks of NICs, `after_nics` what is taken
/// after; one fork at a time. `in_parent` and `in_child` unlock both.
struct ForkHooks {
  void (*before_nics)();
  void (*after_nics)();
  void (*in_parent)();
  void (*in_child)();
};
/// To be called once, before there are threads.
void set_fork_hooks(const ForkHooks& more);

/// A mutex that fork() holds, if it can be had in time: perhaps its owner is the very code that a signal handler has
/// interrupted, which forks.
template <class Mutex>
class MutexHeldAcrossFork {
 public:
  /// False: `most` has passed. In the only thread, a lock that is taken is taken by what a handler has interrupted.
  bool take(Mutex& mutex, Duration most) {
    const bool taken = __libc_single_threaded ? mutex.try_lock() : engine::try_lock_for(mutex, most);
    held_ = taken ? &mutex : nullptr;
    return taken;
  }
  explicit operator bool() const { return held_ != nullptr; }
  /// In the parent and in the child. Does nothing when it is not held.
  void give_back() {
    if (Mutex* const held = std::exchange(held_, nullptr)) held->unlock();
  }

 private:
  Mutex* held_ = nullptr;
};
using HeldAcrossFork = MutexHeldAcrossFork<std::mutex>;

/// How many forks lie between the process that loaded us and this one. What was made at another count is an ancestor's.
unsigned int forks();

}  // namespace uroce::ibv
