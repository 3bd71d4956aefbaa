// SPDX-License-Identifier: Apache-2.0
// rdma_client: connects to rdma_server over TCP, exchanges QP metadata, and runs operations over many RC queue pairs.
// With --cm it does both by RDMA CM.
#include "tools/cli/run_tool.h"
#include "tools/rdma/connections.h"

using namespace uroce::tools;

int main(int argc, char** argv) {
  return run_tool(Role::kClient, argc, argv, [](const Options& options, RdmaOwner& resources) {
    resources = open_device(options.device);
    const bool cm = options.session.cm;
    Connection connection = connect_to(options.server, options.port, options.connect_timeout,
                                       cm ? device_address(*resources) : "", cm ? kRdmaCalls : kTcpCalls);
    return run_and_report(options, std::move(connection), resources);
  });
}
