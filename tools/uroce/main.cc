// uroce: sets up the emulated NICs for a command, and tells about them.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "tools/uroce/commands.h"

using namespace uroce::tools;

int main(int argc, char** argv) {
  CLI::App app{
      "A RoCEv2 NIC in user space.\n\n"
      "  uroce run -- ib_write_bw -x 1 -F            # the server, in one terminal\n"
      "  uroce run -- ib_write_bw -x 1 -F 127.0.0.1  # the client, in another\n"};
  app.require_subcommand(1);

  RunOptions options;
  CLI::App* const run_command = app.add_subcommand("run", "Run a program of libibverbs on emulated NICs");
  run_command->add_option("--addr", options.addresses, "Address of the NIC, or several (UROCE_ADDR)");
  run_command->add_option("--devices", options.devices, "How many NICs (UROCE_DEVICES)");
  run_command->add_option("--engine", options.engine, "auto, io_uring or socket (UROCE_ENGINE)");
  run_command->add_option("--offload", options.offload, "gso: trains of packets (UROCE_OFFLOAD, docs/performance.md)");
  run_command->add_option("--pcap", options.pcap, "Capture every packet into this file (UROCE_PCAP)");
  run_command->add_option("--faults", options.faults, "What goes wrong, e.g. loss=1% (UROCE_FAULTS, docs/faults.md)");
  run_command->add_option("command", options.command, "The command and its arguments, after --")->required();
  run_command->positionals_at_end();

  CLI::App* const devices = app.add_subcommand("devices", "List the NICs, like ibv_devices");
  CLI::App* const info = app.add_subcommand("info", "What the NICs can do, like ibv_devinfo");
  CLI::App* const gids = app.add_subcommand("gids", "Their GID tables, like show_gids");
  CLI::App* const doctor_command =
      app.add_subcommand("doctor", "Find out what keeps NICs from working on this machine");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (run_command->parsed()) return run(options);
  if (devices->parsed()) return show_devices();
  if (info->parsed()) return show_info();
  if (gids->parsed()) return show_gids();
  if (doctor_command->parsed()) return doctor();
  return EXIT_FAILURE;
}
