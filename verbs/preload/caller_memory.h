// SPDX-License-Identifier: Apache-2.0
// Pointers that programs give to libc. The kernel answers EFAULT to those that lead nowhere, so we must not crash on
// them.
#pragma once

#include <cstddef>

namespace uroce::preload {

/// Whether the string that begins at `text` can be read to its end. Leaves errno alone.
bool can_read(const char* text);

/// Copies `size` bytes to where the caller wants them. False, and EFAULT, when they can't be written there.
bool give(void* to, const void* from, std::size_t size);

}  // namespace uroce::preload
