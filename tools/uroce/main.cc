// SPDX-License-Identifier: Apache-2.0
// uroce: sets up the emulated NICs for a command, and tells about them.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "tools/cli/usage.h"
#include "tools/explain/explain.h"
#include "tools/uroce/commands.h"
#include "tools/version/version.h"
#include "verbs/ibverbs/control/commands.h"

using namespace uroce::tools;

namespace {

/// As people read it on a terminal.
std::string plain(std::string_view markdown) {
  std::string text(markdown);
  std::erase(text, '`');
  return text;
}

std::string described(const uroce::ibv::SettingFacts& facts) {
  const std::string more = facts.more.empty() ? "" : "; see " + std::string(facts.more);
  return plain(fmt::format("{} (default: {}{})", facts.meaning, facts.fallback, more));
}

/// An option for each setting that has one; the others at the end of the help.
void add_settings(CLI::App& run, RunOptions& options) {
  std::string others = "Set by variables only:\n";
  const auto& table = uroce::ibv::settings();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto& facts = table.at(i);
    if (facts.option.empty()) {
      others += fmt::format("  {}={}\n      {}\n", facts.name, facts.value, described(facts));
    } else {
      run.add_option(fmt::format("--{}", facts.option), options.settings.at(i),
                     fmt::format("{}: {}", facts.name, described(facts)))
          ->type_name(std::string(facts.value));
    }
  }
  run.footer(others);
}

std::string indented(const std::string& lines) {
  std::istringstream text(lines);
  std::string out;
  for (std::string line; std::getline(text, line);) out += "  " + line + '\n';
  return out;
}

void add_explain(CLI::App& command, uroce::explain::Options& options) {
  command.add_option("file", options.files, "Captures (pcap, pcapng; - is standard input): one, or those of both ends")
      ->required();
  command.add_flag("--packets", options.packets, "Print each packet: what it is, and why it was sent");
  command.add_option("--only", options.only, "problems: print the packets with problems, and no others")
      ->type_name("problems");
  command.add_option("--qp", options.qp, "Only connections of this QP (17 or 0x11)")->type_name("QPN");
  command.add_option("--peer", options.peer, "Only connections of this address")->type_name("ADDRESS");
  command.add_flag("--json", options.json, "One JSON document instead of text");
  command.add_option("--html", options.html, "Also write a page for browsers: a ladder of all packets")
      ->type_name("FILE");
  command
      .add_option("--perfetto", options.perfetto,
                  "Also write a trace for https://ui.perfetto.dev: tracks of QPs, for long captures")
      ->type_name("FILE");
  command.add_flag("--follow", options.follow, "Print each packet when it comes, and wait for more, until ^C");
}

/// What is wrong with the first word, or "": it is to be a command, or one of the few options without one.
std::string wrong_command(const CLI::App& app, int argc, char** argv) {
  const std::string word = argc < 2 ? "" : argv[1];
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return "";
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  if (word == "-h" || word == "--help" || word == "--version") return "";
  if (word.empty()) return "which command? There are " + names + "; see uroce --help";
  if (word[0] == '-') return fmt::format("unknown option {}. A command comes first: {}; see uroce --help", word, names);
  return fmt::format("there is no command '{}'; the commands are {}", word, names);
}

/// The exit status: `status`, or that of a failure when what was printed is not all there.
int finished(int status) {
  errno = 0;
  if (stdout_is_whole()) return status;
  // What failed earlier, while it was printed, has left no errno.
  fmt::print(stderr, "uroce: can't write to stdout: {}\n", errno != 0 ? std::strerror(errno) : "output is missing");
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "A RoCEv2 NIC in user space.\n\n"
      "  uroce run -- ib_write_bw -x 1 -F            # the server, in one terminal\n"
      "  uroce run -- ib_write_bw -x 1 -F 127.0.0.1  # the client, in another\n"};
  app.require_subcommand(1);

  RunOptions options;
  CLI::App* const run_command = app.add_subcommand("run", "Run a program that uses libibverbs on emulated NICs");
  add_settings(*run_command, options);
  run_command->add_option("command", options.command, "The command and its arguments, after --")->required();
  run_command->positionals_at_end();

  bool plain = false;
  RunOptions to_print;
  CLI::App* const env_command =
      app.add_subcommand("env", "Print the environment that `uroce run` sets, for a shell: eval \"$(uroce env)\"");
  add_settings(*env_command, to_print);
  env_command->add_flag("--plain", plain, "Lines NAME=VALUE instead, for GITHUB_ENV or docker run --env-file");

  RunOptions to_enable;
  CLI::App* const enable_command = app.add_subcommand(
      "enable", "Have all programs find the NICs, from this user's next login on: a line in ~/.profile or its like");
  add_settings(*enable_command, to_enable);
  CLI::App* const disable_command = app.add_subcommand("disable", "Remove that line");

  CLI::App* const devices = app.add_subcommand("devices", "List the NICs, like ibv_devices");
  CLI::App* const info = app.add_subcommand("info", "Show the attributes of the NICs, like ibv_devinfo");
  CLI::App* const gids = app.add_subcommand("gids", "Show the GID tables of the NICs, like show_gids");
  CLI::App* const doctor_command =
      app.add_subcommand("doctor", "Find out why NICs do not work on this machine, and what to do");
  std::string sys = "/sys";
  CLI::App* const diagnose_command = app.add_subcommand(
      "diagnose",
      "Show what RDMA programs find here, on any device: GID index, what is in the way, commands that work");
  diagnose_command->add_option("--sys", sys, "Read this copy of another machine's /sys instead")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""));
  PeerOptions peer;
  CLI::Option* const peer_option = doctor_command->add_option(
      "--peer", peer.peer, "Send packets to and from a NIC of that host, on which `uroce doctor --listen` runs");
  CLI::Option* const listen_flag =
      doctor_command->add_flag("--listen", peer.listens, "Wait for `uroce doctor --peer` of another host");
  peer_option->excludes(listen_flag);
  doctor_command->add_option("--port", peer.port, "TCP port by which the two talk")->capture_default_str();

  uroce::explain::Options to_explain;
  CLI::App* const explain_command =
      app.add_subcommand("explain", "Say what happened in a capture of RoCE: losses, retransmissions and their causes");
  add_explain(*explain_command, to_explain);

  std::uint32_t pid = 0;
  std::string directory = ".";
  CLI::App* const record_command =
      app.add_subcommand("record", "Write what the NICs of a running process remember, without stopping it");
  record_command->add_option("pid", pid, "The process")->required();
  record_command->add_option("--dir", directory, "Where to")->type_name("DIR")->capture_default_str();

  std::string whom;
  std::vector<std::string> order;
  CLI::App* const ctl_command = app.add_subcommand(
      "ctl", "Change the faults of running programs, break their QPs, read their counters; alone: list them");
  ctl_command->add_option("process", whom,
                          "A process that was started with `uroce run --control on`, by its number; or all");
  ctl_command->add_option("command", order, "What it is to do, see below; else: list");
  ctl_command->footer("Commands:\n" + indented(uroce::ibv::command_help()));

  TopOptions top_options;
  CLI::App* const top_command = app.add_subcommand("top", "Show what all QPs of your processes do, refreshed until ^C");
  top_command->add_option("--interval", top_options.interval, "Seconds between two looks")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  top_command->add_flag("--json", top_options.json, "One JSON document, once");
  top_command->add_flag("--once", top_options.once, "One table, once");

  std::string qp_name;
  bool qp_json = false;
  CLI::App* const qp_command =
      app.add_subcommand("qp", "Show everything about a QP of a running process, without stopping it");
  qp_command->add_option("qp", qp_name, "PID/QPN, such as 1234/0x11; PID alone: all QPs of the process")->required();
  qp_command->add_flag("--json", qp_json, "One JSON document instead of text");

  app.set_version_flag("--version", version_text("uroce"));

  if (const std::string wrong = wrong_command(app, argc, argv); !wrong.empty()) {
    fmt::print(stderr, "uroce: {}\n", wrong);
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return finished(app.exit(help));
  } catch (const CLI::ParseError& error) {
    const std::string command = fmt::format("uroce {}", argv[1]);
    fmt::print(stderr, "{}: {}\n", command, usage_error(app, error, command));
    return 2;
  }
  if (run_command->parsed()) return run(options);
  int status = EXIT_FAILURE;
  if (env_command->parsed()) status = print_environment(to_print, plain);
  if (enable_command->parsed()) status = enable(to_enable);
  if (disable_command->parsed()) status = disable();
  if (devices->parsed()) status = show_devices();
  if (info->parsed()) status = show_info();
  if (gids->parsed()) status = show_gids();
  if (diagnose_command->parsed()) status = diagnose(sys);
  if (doctor_command->parsed()) status = peer.listens || !peer.peer.empty() ? examine_peer(peer) : doctor();
  if (explain_command->parsed()) status = uroce::explain::explain(to_explain);
  if (record_command->parsed()) status = record(pid, directory);
  if (ctl_command->parsed()) status = control(whom, order);
  if (top_command->parsed()) status = top(top_options);
  if (qp_command->parsed()) status = show_qp(qp_name, qp_json);
  return finished(status);
}
