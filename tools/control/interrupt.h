// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: SIGINT, SIGTERM and SIGHUP set a flag and make a file descriptor readable, so that neither a busy loop nor a
// sleeping poll() misses them. The program then ends in the ordinary way and releases everything; the second signal of
// a kind ends it at once.
#pragma once

namespace uroce::tools {

/// Installs the handlers (once per process), and ignores SIGPIPE: a write to a dead peer is an error, not a death.
void install_interrupt_handlers();
/// Whether a signal has come.
bool interrupted();
/// Throws Failure(kExitInterrupted) if a signal has come.
void throw_if_interrupted();
/// Readable once a signal has come.
int interrupt_fd();

}  // namespace uroce::tools
