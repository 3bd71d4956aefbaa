// SPDX-License-Identifier: Apache-2.0
// What stat(2) and statx(2) say about the view: as if it were in sysfs.
#pragma once

#include <sys/stat.h>

#include "verbs/preload/where.h"

namespace uroce::preload {

struct stat status_of(const std::string& path, const view::Node& node);
struct statx extended_status_of(const std::string& path, const view::Node& node);
/// Never 0; the same in all processes.
ino_t inode_of(std::string_view path);

}  // namespace uroce::preload
