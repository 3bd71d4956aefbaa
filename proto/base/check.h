// SPDX-License-Identifier: Apache-2.0
// Always-on invariants. A failed check means that uroce itself is wrong (never the peer, never the
// caller): it prints what was broken and aborts, in every build type.
#pragma once

namespace uroce {

/// Reports a broken invariant on stderr and aborts. Never returns.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace uroce

/// Aborts when `expression` is false, in every build type. Must not be reachable from wire bytes or
/// from misuse of the API: those are values, not bugs.
#define UROCE_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::uroce::check_failed(#expression, __FILE__, __LINE__))
