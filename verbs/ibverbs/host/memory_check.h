// SPDX-License-Identifier: Apache-2.0
// Is a range of addresses memory of this process, with the rights that a NIC will need?
#pragma once

#include <cstddef>

namespace uroce::ibv {

/// 0 when [start, start + length) is mapped, readable, and writable if `writable`; EFAULT when not, EINVAL when it goes
/// beyond the end of the address space. What the kernel finds out when it pins the pages for a device. Says nothing
/// about later: see guarded_memory.h.
int check_memory(const void* start, std::size_t length, bool writable);
/// The same from the list of all mappings, for kernels before 6.11: 0.3 us for each. The range ends within the address
/// space.
int check_memory_by_list(const void* start, std::size_t length, bool writable);

/// Brings the pages of [start, start + length) in and tells whether they can be read, or written, at the
/// moment; one system call.
bool touch_memory(const void* start, std::size_t length, bool write);

}  // namespace uroce::ibv
