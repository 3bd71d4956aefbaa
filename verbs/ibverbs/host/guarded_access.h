// SPDX-License-Identifier: Apache-2.0
// Instructions that may touch memory that is gone: where they fault, a handler that knows them has them return false
// (fault_handler.h). The idea is that of the kernel's copy_from_user().
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::ibv {

/// Only where somebody has written them for the processor: the kernel does the copies elsewhere.
#if defined(__x86_64__) || defined(__aarch64__)
#define UROCE_GUARDED_ACCESS
inline constexpr bool kHasGuardedAccess = true;
#else
inline constexpr bool kHasGuardedAccess = false;
#endif

extern "C" {
// Each returns false when it could not touch the memory; a part may have been copied then.

/// Copies to the program's memory, as it may watch it: words (2, 4, 8 bytes) that lie at multiples of their size are
/// written at once, and the last byte after the rest.
bool uroce_guarded_write(void* to, const void* from, std::size_t size);
/// Copies from the program's memory, as it may write it: such words are read at once.
bool uroce_guarded_read(void* to, const void* from, std::size_t size);
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
