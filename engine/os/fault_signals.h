// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <array>

namespace uroce::engine {

/// What a thread brings upon itself in the midst of its work. Blocked, it would end the process in spite of a handler.
inline constexpr std::array kFaultSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

}  // namespace uroce::engine
