// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace uroce::engine {

/// Guards what a process has one of, for a moment, in which nothing else is locked. fork() holds it
/// (verbs/ibverbs/host/ fork.h), so that children find it free.
inline constinit std::mutex process_mutex;

}  // namespace uroce::engine
