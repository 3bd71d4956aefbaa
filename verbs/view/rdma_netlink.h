// SPDX-License-Identifier: Apache-2.0
// What a kernel with our NICs would answer on a NETLINK_RDMA socket: devices, ports, QPs and counters, as `rdma` of
// iproute2 asks for them (include/uapi/rdma/rdma_netlink.h, client RDMA_NL_NLDEV).
#pragma once

#include <cstdint>
#include <vector>

#include "proto/bytes.h"
#include "verbs/view/nic_view.h"

namespace uroce::view {

/// The datagrams that answer the requests in `sent`, of the socket with this port number, in order. Anything may be in
/// `sent`. What would change something, and objects other than QPs, are EOPNOTSUPP; librdmacm's question for a
/// character device is ENODEV: it looks in /sys then.
std::vector<std::vector<std::uint8_t>> answer_netlink(const NicSource& source, Bytes sent, std::uint32_t port_number);

}  // namespace uroce::view
