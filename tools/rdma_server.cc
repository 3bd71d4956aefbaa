// SPDX-License-Identifier: Apache-2.0
// rdma_server: waits for rdma_client, exchanges QP metadata with it over TCP, and is the target (or, with --bidir, also
// the initiator) of its operations over many RC queue pairs. With --cm it does both by RDMA CM.
#include "tools/cli/run_tool.h"
#include "tools/output/print.h"
#include "tools/rdma/connections.h"

using namespace uroce::tools;

namespace {

Listener listen_for_clients(const Options& options, RdmaResources& resources) {
  if (!options.session.cm) return listen_on(options.bind_address, options.port);
  // An address of the device: another one would lead clients to another device, or to none.
  if (options.bind_address.empty()) return listen_on(device_address(resources), options.port, kRdmaCalls);
  Listener listener = listen_on(options.bind_address, options.port, kRdmaCalls);
  choose_address(resources, listener.address);  // The QPs are to be where clients come to.
  return listener;
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool(Role::kServer, argc, argv, [](const Options& options, RdmaOwner& resources) {
    resources = open_device(options.device);
    Listener listener = listen_for_clients(options, *resources);
    std::string at = options.session.cm ? " of " + device_address(*resources) : "";
    if (at.starts_with(" of 127.")) at += " (this host only; for others, pass --addr)";
    print_to(stderr, "{}: {} waits for a client on {} port {}{}\n", options.program,
             ibv_get_device_name(resources->context->device), listener.socket.calls().name, listener.port, at);
    while (true) {
      Connection connection = accept_client(listener);
      if (!options.loop) listener.socket = Socket();  // a second client is refused, not left waiting
      const ExitCode code = run_and_report(options, std::move(connection), resources);
      if (!options.loop || code == kExitInterrupted) return code;
    }
  });
}
