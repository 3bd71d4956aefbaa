// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace uroce::preload {

/// Something may have been taken from `fd`: if it is a NETLINK_RDMA socket, what it had no room for goes in. Every
/// read() of a program comes here: it is one comparison, mostly. errno stays.
void refill(int fd);

}  // namespace uroce::preload
