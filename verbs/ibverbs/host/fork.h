// SPDX-License-Identifier: Apache-2.0
// fork(): a NIC's threads stay with the parent, its descriptors are in both. A child finds every NIC abandoned: its
// verbs fail, the parent's go on, and opening a device again gives a fresh NIC.
#pragma once

#include <mutex>

#include "proto/base/clock.h"

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
class HeldAcrossFork {
 public:
  /// False: `most` has passed.
  bool take(std::mutex& mutex, Duration most);
  explicit operator bool() const { return held_ != nullptr; }
  /// In the parent and in the child. Does nothing when it is not held.
  void give_back();

 private:
  std::mutex* held_ = nullptr;
};

/// How many forks lie between the process that loaded us and this one. What was made at another count is an ancestor's.
unsigned int forks();

}  // namespace uroce::ibv
