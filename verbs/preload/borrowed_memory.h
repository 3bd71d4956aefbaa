// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace uroce::preload {

/// Whether this is a child of vfork(): it has the memory of its parent, and descriptors and a working directory of its
/// own.
bool borrows_memory();

}  // namespace uroce::preload
