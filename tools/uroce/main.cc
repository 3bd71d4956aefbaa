// SPDX-License-Identifier: Apache-2.0
// uroce: sets up the emulated NICs for a command, and tells about them.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/usage.h"
#include "tools/explain/explain.h"
#include "tools/output/print.h"
#include "tools/output/standard_descriptors.h"
#include "tools/uroce/commands.h"
#include "tools/version/version.h"
#include "verbs/ibverbs/control/commands.h"

using namespace uroce::tools;

namespace {

/// As people read it on a terminal, with the programs' names as they are installed.
std::string plain(std::string_view markdown) {
  std::string text(markdown);
  std::erase(text, '`');
  return uroce::tools::with_installed_names(std::move(text));
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
          ->type_name(std::string(facts.value))
          ->check(not_an_option());
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
  command.add_option("--qp", options.qp, "Only connections of this QP (17 or 0x11)")
      ->type_name("QPN")
      ->check(not_empty());
  command.add_option("--peer", options.peer, "Only connections of this address")
      ->type_name("ADDRESS")
      ->check(not_empty());
  command.add_flag("--json", options.json, "One JSON document instead of text");
  command.add_option("--html", options.html, "Also write a page for browsers: a ladder of all packets")
      ->type_name("FILE")
      ->check(not_empty())
      ->check(not_an_option());
  command
      .add_option("--perfetto", options.perfetto,
                  "Also write a trace for https://ui.perfetto.dev: tracks of QPs, for long captures")
      ->type_name("FILE")
      ->check(not_empty())
      ->check(not_an_option());
  command.add_flag("--follow", options.follow, "Print each packet when it comes, and wait for more, until ^C");
}

/// What the command line asks for: the options of every command, and the command that was given.
struct CommandLine {
  RunOptions run, env, enable;
  bool plain = false;
  std::string sys = kOwnSys;
  PeerOptions peer;
  uroce::explain::Options explain;
  std::uint32_t pid = 0;
  std::string directory = ".";
  std::string whom;
  std::vector<std::string> order;
  TopOptions top;
  std::string qp;
  bool qp_json = false;

  std::function<int()> command;  ///< Its exit status.
};

CLI::App& add_command(CLI::App& app, CommandLine& line, const std::string& name, const std::string& meaning,
                      std::function<int()> command) {
  CLI::App& added = *app.add_subcommand(name, meaning);
  added.callback([&line, command = std::move(command)] { line.command = command; });
  return added;
}

/// Commands that start programs, or say how other programs start with the NICs.
void add_starting(CLI::App& app, CommandLine& line) {
  CLI::App& run_command = add_command(app, line, "run", "Run a program that uses libibverbs on emulated NICs",
                                      [&line] { return run(line.run); });
  add_settings(run_command, line.run);
  run_command.add_option("command", line.run.command, "The command and its arguments, after --")->required();
  run_command.positionals_at_end();

  CLI::App& env =
      add_command(app, line, "env", "Print the environment that `uroce run` sets, for a shell: eval \"$(uroce env)\"",
                  [&line] { return print_environment(line.env, line.plain); });
  add_settings(env, line.env);
  env.add_flag("--plain", line.plain, "Lines NAME=VALUE instead, for GITHUB_ENV or docker run --env-file");

  CLI::App& enabling = add_command(
      app, line, "enable",
      "Let all programs find the NICs, from this user's next login on: adds a line to ~/.profile or a similar file",
      [&line] { return enable(line.enable); });
  add_settings(enabling, line.enable);
  add_command(app, line, "disable", "Remove that line", disable);
}

/// Commands that show the NICs of this machine, and what is wrong with them.
void add_looking(CLI::App& app, CommandLine& line) {
  add_command(app, line, "devices", "List the NICs, like ibv_devices", show_devices);
  add_command(app, line, "info", "Show the attributes of the NICs, like ibv_devinfo", show_info);
  add_command(app, line, "gids", "Show the GID tables of the NICs, like show_gids", show_gids);

  CLI::App& examine = add_command(
      app, line, "doctor", "Find out why NICs do not work on this machine, and what to do",
      [&line] { return line.peer.listens || !line.peer.peer.empty() ? examine_peer(line.peer) : doctor(); });
  CLI::Option* const peer = examine.add_option(
      "--peer", line.peer.peer, "Send packets to and from a NIC of that host, on which `uroce doctor --listen` runs");
  peer->check(not_empty());
  CLI::Option* const listens =
      examine.add_flag("--listen", line.peer.listens, "Wait for `uroce doctor --peer` of another host");
  peer->excludes(listens);
  examine.add_option("--port", line.peer.port, "TCP port by which the two talk")
      ->transform(whole_number(0, 65535))
      ->type_name("N")
      ->capture_default_str();

  add_command(app, line, "diagnose",
              "Show what RDMA programs find here, on any device: GID index, what is in the way, commands that work",
              [&line] { return diagnose(line.sys); })
      .add_option("--sys", line.sys, "Read this copy of another machine's /sys instead")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""));

  add_explain(add_command(app, line, "explain",
                          "Say what happened in a capture of RoCE: losses, retransmissions and their causes",
                          [&line] { return uroce::explain::explain(line.explain); }),
              line.explain);
}

/// Commands for programs that run.
void add_watching(CLI::App& app, CommandLine& line) {
  CLI::App& recording =
      add_command(app, line, "record", "Write what the NICs of a running process remember, without stopping it",
                  [&line] { return record(line.pid, line.directory); });
  recording.add_option("pid", line.pid, "The process")
      ->transform(whole_number<std::uint32_t>().description(""))
      ->required();
  recording.add_option("--dir", line.directory, "Where to")->type_name("DIR")->capture_default_str();

  CLI::App& ctl = add_command(
      app, line, "ctl", "Change the faults of running programs, break their QPs, read their counters; alone: list them",
      [&line] { return control(line.whom, line.order); });
  ctl.add_option("process", line.whom,
                 "A process that was started with `uroce run --control on`, by its number; or all");
  ctl.add_option("command", line.order, "The command, see below (default: list)");
  ctl.footer("Commands:\n" + indented(uroce::ibv::command_help()));

  CLI::App& watch = add_command(app, line, "top", "Show what all QPs of your processes do, refreshed until ^C",
                                [&line] { return top(line.top); });
  watch.add_option("--interval", line.top.interval, "Seconds between two looks")
      ->check(real_range(0.01, 3600.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  watch.add_flag("--json", line.top.json, "One JSON document, once");
  watch.add_flag("--once", line.top.once, "One table, once");

  CLI::App& inside =
      add_command(app, line, "qp", "Show everything about a QP of a running process, without stopping it",
                  [&line] { return show_qp(line.qp, line.qp_json); });
  inside.add_option("qp", line.qp, "PID/QPN, such as 1234/0x11; PID alone: all QPs of the process")->required();
  inside.add_flag("--json", line.qp_json, "One JSON document instead of text");
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
  print_to(stderr, "uroce: can't write to stdout: {}\n", errno != 0 ? std::strerror(errno) : "output is missing");
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors(O_RDONLY | O_CLOEXEC);  // The program of `uroce run` finds them closed.
  CLI::App app{
      "A RoCEv2 NIC in user space.\n\n"
      "  uroce run -- ib_write_bw -x 1 -F            # the server, in one terminal\n"
      "  uroce run -- ib_write_bw -x 1 -F 127.0.0.1  # the client, in another\n"};
  app.require_subcommand(1);
  CommandLine line;
  add_starting(app, line);
  add_looking(app, line);
  add_watching(app, line);
  app.set_version_flag("--version", version_text("uroce"));

  if (const std::string wrong = wrong_command(app, argc, argv); !wrong.empty()) {
    print_to(stderr, "uroce: {}\n", wrong);
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return finished(app.exit(help));
  } catch (const CLI::ParseError& error) {
    const std::string command = fmt::format("uroce {}", argv[1]);
    print_to(stderr, "{}: {}\n", command, usage_error(app, error, command));
    return 2;
  }
  try {
    return finished(line.command());
  } catch (const std::bad_alloc&) {
    print_to(stderr, "uroce {}: out of memory; close other programs, or raise the limit (ulimit -v)\n", argv[1]);
  } catch (const std::exception& error) {
    print_to(stderr, "uroce {}: {}\n", argv[1], error.what());
  }
  return EXIT_FAILURE;
}
