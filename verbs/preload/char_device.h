// The character devices of the view.
#pragma once

#include <string>

namespace uroce::preload {

/// Opens the device with this path. A uverbs device exists to be found: nobody answers the kernel's commands there,
/// since libibverbs, which would send them, is us. So writes fail with EPERM and ioctl() with ENOTTY.
///
/// This is where /dev/infiniband/rdma_cm comes to life once the view has it: librdmacm wants a descriptor that poll()
/// understands, and sends its commands by write(), which has to be ours then as close() has.
int open_char_device(const std::string& path, int flags);

}  // namespace uroce::preload
