// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/char_device.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "verbs/preload/channel_fd.h"
#include "verbs/view/sysfs.h"

namespace uroce::preload {

int open_char_device(const std::string& path, int flags) {
  if (path == view::kRdmaCmDevice) return open_channel(flags);
  const unsigned int close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  const int descriptor = ::memfd_create(("uroce:" + path).c_str(), close_on_exec | MFD_ALLOW_SEALING);
  if (descriptor >= 0) ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return descriptor;
}

}  // namespace uroce::preload
