// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace uroce::engine {

/// Guards what a process has one of, for a moment, in which nothing else is locked. Children of fork() find it free
/// (verbs/ibverbs/host/fork.cc).
inline constinit std::mutex process_mutex;

}  // namespace uroce::engine
