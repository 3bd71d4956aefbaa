// SPDX-License-Identifier: Apache-2.0
// A process that has changed into a directory of the view. The kernel knows no such place: for it, the process is in
// the nearest directory above that is real. Where it is for itself is the name of a descriptor, which what it forks and
// executes inherits.
#pragma once

#include <optional>
#include <string>

namespace uroce::preload {

/// The canonical path of the directory of the view that this process is in; nothing: it is in a real one. May change
/// errno.
std::optional<std::string> working_directory();

// Programs that close all descriptors that they do not know, as Python does before it executes another one, do not mean
// the one with the name: what they execute would be elsewhere. Both leave errno alone.

/// Whether `descriptor` is the one with the name.
bool names_working_directory(int descriptor);
/// Which one it is; -1: there is none. Takes longer.
int descriptor_of_working_directory();

}  // namespace uroce::preload
