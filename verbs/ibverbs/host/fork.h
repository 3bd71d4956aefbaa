// SPDX-License-Identifier: Apache-2.0
// fork(): a NIC's threads stay with the parent, its descriptors are in both. A child finds every NIC abandoned: its
// verbs fail, the parent's go on, and opening a device again gives a fresh NIC.
//
// A signal handler may fork that has interrupted a verb, whose locks its thread has. Such a fork waits for nothing. Its
// child has copies of the NICs' descriptors until it ends or calls exec, and should do nothing else, as in any process
// with several threads; its verbs fail, too.
#pragma once

#include <utility>

#include "engine/os/bounded_lock.h"
#include "proto/base/clock.h"

namespace uroce::ibv {

/// Others that have locks: `before_nics` locks what is taken before the locks of NICs, `after_nics` what is taken
/// after; one fork at a time. `in_parent` and `in_child` unlock both. `is_inside`: whether this thread has one, or
/// waits for one, so that what forks is a signal handler; nothing else is called then.
struct ForkHooks {
  bool (*is_inside)();
  void (*before_nics)();
  void (*after_nics)();
  void (*in_parent)();
  void (*in_child)();
};
/// To be called once, before there are threads.
void set_fork_hooks(const ForkHooks& more);

/// Whether this thread has, or waits for, a lock that fork() takes, so that what forks is a signal handler. Also in the
/// child of such a fork, where locks may be held by threads that it does not have.
bool forks_inside_call();

/// A mutex that fork() holds, if it can be had in time: another thread may have it for long.
template <class Mutex>
class MutexHeldAcrossFork {
 public:
  /// False: `most` has passed.
  bool take(Mutex& mutex, Duration most) {
    const bool taken = engine::try_lock_for(mutex, most);
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

/// How many forks lie between the process that loaded us and this one. What was made at another count is an ancestor's.
unsigned int forks();

}  // namespace uroce::ibv
