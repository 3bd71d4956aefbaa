// SPDX-License-Identifier: Apache-2.0
// File descriptors of the view. Behind each is a memfd with the contents as they were when it was opened; its name is
// the path in the view. So descriptors need no bookkeeping here: they can be duplicated, inherited and closed like any.
#pragma once

#include <optional>
#include <string>

#include "verbs/preload/where.h"

namespace uroce::preload {

/// Opens what is at `where`, which is ours, as open(2) does with `flags`. -1 and errno: EACCES, EEXIST, EISDIR, ELOOP,
/// ENOTDIR, or what memfd_create() says.
int open_node(const Where& where, int flags);

/// The canonical path that `descriptor` was opened at, if that is one of the view.
std::optional<std::string> path_of_descriptor(int descriptor);

/// What the link in /proc/self/fd says, or "".
std::string link_of_descriptor(int descriptor);

/// Has a file of the view say what it says now. Nothing happens to other descriptors. Leaves errno alone.
void refresh(int descriptor);

}  // namespace uroce::preload
