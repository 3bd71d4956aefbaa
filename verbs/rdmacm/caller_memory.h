// SPDX-License-Identifier: Apache-2.0
// What commands point to. The kernel answers EFAULT to pointers that lead nowhere, so we must not crash on them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs/ibverbs/host/fault_handler.h"
#include "verbs/ibverbs/host/guarded_access.h"

namespace uroce::rdmacm {

/// Copies `size` bytes, from or to the program's memory. False when it is not there. (A program that has taken our
/// fault handler's place gets the fault itself.)
inline bool copy_of_caller(void* to, const void* from, std::size_t size) {
  ibv::install_fault_handler();
  return ibv::uroce_guarded_write(to, from, size);
}

/// What a command has as a pointer: 64 bits, whoever wrote it.
inline void* pointer(std::uint64_t at) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at)); }

}  // namespace uroce::rdmacm
