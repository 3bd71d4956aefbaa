// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/os/aware_mutex.h"

namespace uroce::engine {

using ProcessMutex = AwareMutex<class OfProcess>;

/// Guards what a process has one of, for a moment, in which nothing else is locked. Children of fork() find it free
/// (verbs/ibverbs/host/fork.cc).
inline constinit ProcessMutex process_mutex;

}  // namespace uroce::engine
