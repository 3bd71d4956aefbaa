// SPDX-License-Identifier: Apache-2.0
// The character devices of the view.
#pragma once

#include <string>

namespace uroce::preload {

/// Opens the device with this path. A uverbs device exists to be found: nobody answers the kernel's commands there,
/// since libibverbs, which would send them, is us. So writes fail with EPERM and ioctl() with ENOTTY. The device of
/// RDMA CM takes commands (channel_fd.h).
int open_char_device(const std::string& path, int flags);

}  // namespace uroce::preload
