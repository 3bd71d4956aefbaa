// librdmacm asks the kernel by netlink for its RDMA devices, before it looks at /sys, and then insists on what it
// heard: on a machine with RDMA modules it would go to the real device. So here is a kernel without.
#include <linux/netlink.h>
#include <sys/socket.h>

#include "verbs/preload/export.h"
#include "verbs/preload/next.h"

UROCE_EXPORT int socket(int domain, int type, int protocol) __THROW {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return UROCE_NEXT(socket)(domain, type, protocol);
}
