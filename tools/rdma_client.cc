// rdma_client: connects to rdma_server over TCP, exchanges QP metadata, and runs operations over many RC queue pairs.
#include "tools/cli/run_tool.h"

using namespace uroce::tools;

int main(int argc, char** argv) {
  return run_tool(Role::kClient, argc, argv, [](const Options& options) {
    const RdmaOwner resources = open_device(options.device);
    Connection connection = connect_to(options.server, options.port, options.connect_timeout);
    return run_and_report(options, std::move(connection), *resources);
  });
}
