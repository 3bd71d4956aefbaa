// SPDX-License-Identifier: Apache-2.0
// SIGSEGV and SIGBUS: those of guarded accesses (guarded_access.h) become their failure, all others are the program's,
// as if we were not there.
#pragma once

namespace uroce::ibv {

/// Puts our handler before whatever the program has, once per process.
void install_fault_handler();

/// Whether a fault of the calling thread would reach our handler: the program may have installed one of its own after
/// ours, and a thread that blocks these signals dies of them. Three system calls.
bool faults_reach_our_handler();

}  // namespace uroce::ibv
