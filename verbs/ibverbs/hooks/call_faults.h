// SPDX-License-Identifier: Apache-2.0
// Verbs that fail because UROCE_FAULTS asks for it (call=ibv_create_cq#3:ENOMEM): in front of every verb, before it has
// touched anything.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <type_traits>

#include "engine/faults/spec.h"

namespace uroce::ibv {

/// Counts a call of `verb`; the errno value with which it is to fail, or 0. Calls are counted per process.
int call_fault(const char* verb);

/// From now on the faults of `spec`, which count from now. For one thread at a time.
void replace_call_faults(const engine::faults::FaultSpec& spec);

/// The faults of `more` besides, which count from now. For one thread at a time.
void add_call_faults(const engine::faults::FaultSpec& more);

/// How many calls have failed so, in this process.
std::uint64_t call_faults_injected();

/// A sentence about a verb in `spec` that does not exist or can't fail, or "".
std::string check_calls(const engine::faults::FaultSpec& spec);

/// Functions that return nothing, a text or an identifier have no way to fail.
template <class Return>
inline constexpr bool can_fail = std::is_same_v<Return, int> ||
                                 (std::is_pointer_v<Return> && !std::is_same_v<Return, const char*>);

/// What a verb returns when it fails with `error`. The verbs disagree: most return the errno value, those that return a
/// pointer set errno, and some return -1 and set errno.
template <class Return>
Return failed_call(int error, bool returns_minus_one) {
  errno = error;
  if constexpr (std::is_pointer_v<Return>) {
    return nullptr;
  } else {
    return static_cast<Return>(returns_minus_one ? -1 : error);
  }
}

}  // namespace uroce::ibv
