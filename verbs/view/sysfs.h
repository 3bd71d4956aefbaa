// SPDX-License-Identifier: Apache-2.0
// The files that the kernel shows of an RDMA device, for the emulated NICs: /sys/class/infiniband*, /dev/infiniband and
// the device itself, which a kernel would have on its PCI bus and we have under /sys/devices/virtual/uroce. Names and
// formats: drivers/infiniband/core/{sysfs,uverbs_main,user_mad}.c and drivers/infiniband/sw/rxe as of Linux 6.
#pragma once

#include <string_view>

#include "verbs/view/nic_view.h"
#include "verbs/view/tree.h"

namespace uroce::view {

/// Where the kernel takes the commands of RDMA CM.
inline constexpr std::string_view kRdmaCmDevice = "/dev/infiniband/rdma_cm";

/// The view of the NICs of `source`, which must live as long as the tree does.
Tree make_sysfs(const NicSource& source);

}  // namespace uroce::view
