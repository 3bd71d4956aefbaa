// SPDX-License-Identifier: Apache-2.0
// Programs whose main thread ends by pthread_exit().
#pragma once

namespace uroce::engine {

/// To be called before a thread of ours is started. A process whose main thread has ended exits with its last thread;
/// ours would keep it for ever, and would keep off signals, which they block. So when the main thread ends, a thread
/// begins to look whether others than ours are left, and calls exit(0) when there are none. Throws what a thread that
/// can't be started throws.
void before_own_thread();

/// To be called by all threads that open a device: only the main thread can have its end noticed. Who has loaded this
/// library or started a thread of ours, has called it.
void notice_end_of_main();

}  // namespace uroce::engine
