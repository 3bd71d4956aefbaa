// rdma_server: waits for rdma_client, exchanges QP metadata with it over TCP, and is the target (or, with --bidir, also
// the initiator) of its operations over many RC queue pairs.
#include "tools/cli/run_tool.h"
#include "tools/rdma/print.h"

using namespace uroce::tools;

int main(int argc, char** argv) {
  return run_tool(Role::kServer, argc, argv, [](const Options& options) {
    const RdmaOwner resources = open_device(options.device);
    Listener listener = listen_on(options.bind_address, options.port);
    print_to(stderr, "rdma_server: {} waits for a client on TCP port {}\n",
             ibv_get_device_name(resources->context->device), listener.port);
    while (true) {
      Connection connection = accept_client(listener);
      if (!options.loop) listener.socket = Socket();  // a second client is refused, not left waiting
      const ExitCode code = run_and_report(options, std::move(connection), *resources);
      if (!options.loop || code == kExitInterrupted) return code;
    }
  });
}
