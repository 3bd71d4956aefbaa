// SPDX-License-Identifier: Apache-2.0
// Instructions that may touch memory that is gone: where they fault, a handler that knows them has them return false
// (fault_handler.h). The idea is that of the kernel's copy_from_user().
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::ibv {

/// False on processors for which nobody has written them: the kernel does the copies there.
#ifdef __x86_64__
inline constexpr bool kHasGuardedAccess = true;
#else
inline constexpr bool kHasGuardedAccess = false;
#endif

extern "C" {
// Each returns false when it could not touch the memory; a part may have been copied then.
bool uroce_guarded_copy(void* to, const void* from, std::size_t size);
/// `*original` becomes what was in `*word`.
bool uroce_guarded_fetch_add(std::uint64_t* word, std::uint64_t operand, std::uint64_t* original);
bool uroce_guarded_compare_swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t desired,
                                std::uint64_t* original);
/// Writes all 8 bytes at once, to where they are aligned, after all that was written before.
bool uroce_guarded_store(std::uint64_t* word, std::uint64_t value);
}

/// For the handler of a fault: when `ucontext` stopped in one of these functions, has it return false and tells so.
bool fail_guarded_access(void* ucontext);

}  // namespace uroce::ibv
