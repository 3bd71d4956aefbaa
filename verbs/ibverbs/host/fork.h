// fork(): a NIC's threads stay with the parent, its descriptors are in both.
#pragma once

namespace uroce::ibv {

/// Sees to it, once per process, that a child of fork() finds every NIC abandoned: its verbs fail, the parent's go on,
/// and opening a device again gives a fresh NIC.
void install_fork_handlers();

/// How many forks lie between the process that first opened a device and this one. What was made at another count is an
/// ancestor's.
unsigned int forks();

}  // namespace uroce::ibv
