// SPDX-License-Identifier: Apache-2.0
// The QP list, connected by RDMA CM: both sides from INIT to RTS.
#pragma once

#include "tools/control/control.h"
#include "tools/rdma/connections.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

/// The server tells the client where it listens, and accepts QPs that say which one of how many they are, and that they
/// belong to this client and this workload. Others are refused.
PeerMetadata accept_by_cm(Control& control, RdmaResources& resources, const PeerMetadata& local,
                          const Workload& workload, const CmAttributes& attributes);
/// The client connects QP after QP.
PeerMetadata connect_by_cm(Control& control, RdmaResources& resources, const PeerMetadata& local,
                           const Workload& workload, const CmAttributes& attributes);

}  // namespace uroce::tools
