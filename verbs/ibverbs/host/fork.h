// SPDX-License-Identifier: Apache-2.0
// fork(): a NIC's threads stay with the parent, its descriptors are in both.
#pragma once

namespace uroce::ibv {

/// Sees to it, once per process, that a child of fork() finds every NIC abandoned: its verbs fail, the parent's go on,
/// and opening a device again gives a fresh NIC.
void install_fork_handlers();

/// Others that have locks: `before_nics` locks what is taken before the locks of NICs, `after_nics` what is taken
/// after. Both are unlocked by `in_parent`; a child has copies of them, which it leaves alone.
struct ForkHooks {
  void (*before_nics)();
  void (*after_nics)();
  void (*in_parent)();
  void (*in_child)();
};
/// Installs the handlers with these. To be called once.
void set_fork_hooks(const ForkHooks& more);

/// How many forks lie between the process that first opened a device and this one. What was made at another count is an
/// ancestor's.
unsigned int forks();

}  // namespace uroce::ibv
