// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "engine/faults/spec.h"
#include "tools/cli/config_file.h"
#include "tools/cli/usage.h"
#include "tools/rdma/failure.h"
#include "tools/version/version.h"
#include "tools/workload/workload.h"

namespace uroce::tools {
namespace {

constexpr const char* kExitCodes =
    "Exit status: 0 all went well; 1 the transfer failed (verification, transport error, peer gone);\n"
    "2 it never started (options, device, address, peer that does not match); 130 interrupted.\n"
    "Precedence of settings: command line, environment (UROCE_BACKEND), --config FILE, default.";

/// As check_size(), for a fault specification.
std::string check_faults(const std::string& text) {
  const auto spec = engine::faults::parse_faults(text);
  return spec ? "" : spec.error();
}

/// A check for CLI11: explains what is wrong, or "" when `text` is a size.
std::string check_size(const std::string& text) {
  return parse_size(text) ? "" : "'" + text + "' is not a size like 4096, 64K or 1M";
}

/// An option that holds a size; `fallback` is shown as its default.
void add_size(CLI::App& app, const std::string& name, std::uint64_t& value, const std::string& help,
              const std::string& fallback, const std::string& group) {
  app.add_option_function<std::string>(
         name, [&value](const std::string& text) { value = parse_size(text).value_or(value); }, help)
      ->check(CLI::Validator(check_size, ""))
      ->type_name("SIZE")
      ->default_str(fallback)
      ->group(group);
}

/// An option of a few bits (CLI11 takes uint8_t for a character).
struct Bounds {
  unsigned low, high;
};
void add_small(CLI::App& app, const std::string& name, std::uint8_t& value, Bounds bounds, const std::string& help,
               const std::string& group) {
  app.add_option_function<unsigned>(
         name, [&value](unsigned v) { value = static_cast<std::uint8_t>(v); }, help)
      ->transform(whole_number(bounds.low, bounds.high))
      ->type_name("N")
      ->default_str(std::to_string(value))
      ->group(group);
}

void add_place(CLI::App& app, Options& o, Role role) {
  const std::string group = "Device and peer";
  if (role == Role::kClient) {
    app.add_option("server,--server", o.server, "Name or address of the host on which " + server_name() + " runs")
        ->required()
        ->group(group);
  }
  app.add_option("device,--device", o.device.name, "RDMA device, as ibv_devices lists it (default: the first one)")
      ->group(group);
  app.add_option("port,--port", o.port,
                 "TCP port (with --cm: RDMA CM port) of the server" +
                     std::string(role == Role::kServer ? "; 0 = any free one" : ""))
      ->transform(whole_number(role == Role::kServer ? 0 : 1, 65535))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("gid-index,--gid-index", o.device.gid_index,
                 "Entry of the device's GID table, which selects the address")
      ->transform(whole_number(0, 255))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("num-qp,--num-qp", o.session.workload.qps,
                 role == Role::kServer ? "Maximum number of queue pairs of a client" : "Queue pairs")
      ->transform(whole_number(1u, kMaxQps))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--cm", o.session.cm,
               "Connect by RDMA CM, without TCP; the server's address is that of its device. Both sides need it")
      ->group(group);
  app.add_option("--addr", o.addr,
                 "Address or interface of the emulated NIC, e.g. eth0 (default: a loopback address" +
                     std::string(role == Role::kServer ? "; without --cm, for" : "; for") +
                     " a peer on another host, the address by which we reach it)")
      ->type_name("A,B;C")
      ->group(group);
  add_small(app, "--ib-port", o.device.ib_port, {1, 255}, "Port of the device", group);
  if (role == Role::kServer) {
    app.add_option("--bind", o.bind_address,
                   "Listen on this address only; with --cm, choose it among those of the device")
        ->group(group);
    app.add_flag("--loop", o.loop,
                 "Serve one client after another until interrupted; what the summaries say of the NIC counts on")
        ->group(group);
  } else {
    app.add_option_function<double>(
           "--connect-timeout",
           [&o](double s) { o.connect_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(s * 1000)); },
           "How long to try to connect, while the server starts")
        ->check(real_range(0.001, 3600.0))
        ->type_name("SECONDS")
        ->default_str("3")
        ->group(group);
  }
}

void add_workload(CLI::App& app, Options& o) {
  const std::string group = "Workload";
  Workload& w = o.session.workload;
  app.add_option_function<std::string>(
         "--op", [&w](const std::string& name) { w.mix = parse_mix(name).value_or(w.mix); },
         "Operation: send, send-imm, write, write-imm, read, cas, faa; mixed = these in rotation")
      ->check(CLI::IsMember({"send", "send-imm", "write", "write-imm", "read", "cas", "faa", "mixed"}))
      ->type_name("OP")
      ->default_str("send")
      ->group(group);
  add_size(app, "--size", w.size, "Bytes of a message, e.g. 0, 4096, 64K, 1M, 64M (atomics: always 8)", "64K", group);
  app.add_option("--iters", w.iterations, "Operations per QP (and direction)")
      ->transform(whole_number(std::uint64_t{1}, kMaxIterations))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--mtu", w.mtu, "Path MTU (default: the active MTU of the ports)")
      ->transform(whole_number(256, 4096).description(""))
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->type_name("BYTES")
      ->default_str("")
      ->group(group);
  app.add_option("--depth", w.depth, "Outstanding operations per QP; reduced to what memory and devices allow")
      ->transform(whole_number(1u, kMaxDepth))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--bidir", w.bidirectional, "Both sides initiate at the same time")->group(group);
  app.add_flag("--verify", w.verify, "Check every byte where it arrives (WRITE: the target acknowledges over TCP)")
      ->group(group);
  app.add_flag("--inline", w.inline_data, "Post the data of SENDs and WRITEs inline")->group(group);
  app.add_option("--sges", w.sges, "Pieces per message (scatter/gather entries)")
      ->transform(whole_number(1u, kMaxSges))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

void add_transport(CLI::App& app, Options& o, Role role) {
  const std::string group = "Transport, of this side's QPs";
  RtsAttributes& rts = o.session.rts;
  const auto small = [&](const char* name, std::uint8_t& value, Bounds bounds, const std::string& help) {
    add_small(app, name, value, bounds, help, group);
  };
  small("--timeout", rts.timeout, {0, 31}, "Local ACK timeout, 4.096 us * 2^N; 0 = never");
  small("--retry-cnt", rts.retry_cnt, {0, 7}, "Retries after a timeout or a sequence error");
  small("--rnr-retry", rts.rnr_retry, {0, 7}, "Retries when the peer has no receive posted; 7 = forever");
  small("--min-rnr-timer", o.session.min_rnr_timer, {0, 31},
        "How long our RNR NAKs ask the peer to wait; 12 = 0.64 ms");
  small("--rd-atomic", rts.max_rd_atomic, {1, 128},
        "Outstanding READs and atomics per QP; reduced to what the devices allow");
  app.add_flag("--events", o.session.events,
               std::string("Sleep on a completion channel instead of polling") +
                   (role == Role::kClient ? " (the server does so too)" : ""))
      ->group(group);
  add_size(app, "--max-memory", o.session.max_memory, "Largest amount of memory for buffers", "1G", group);
  app.add_option_function<unsigned>(
         "--stall-limit", [&o](unsigned s) { o.session.stall_limit = std::chrono::seconds(s); },
         "Give up when nothing completes for this time; 0 = never")
      ->transform(whole_number<unsigned>().description(""))
      ->type_name("SECONDS")
      ->default_str("30")
      ->group(group);
}

void add_output(CLI::App& app, Options& o) {
  const std::string group = "Backend and output";
  const std::map<std::string, Backend> backends = {{"uroce", Backend::kUroce}, {"ibverbs", Backend::kIbverbs}};
  add_choice(app, "--backend", o.backend, backends, "uroce = the emulated NIC, ibverbs = the system's libibverbs")
      ->type_name("uroce|ibverbs")
      ->envname("UROCE_BACKEND")
      ->default_str("uroce")
      ->group(group);
  app.add_option("--wire", o.wire,
                 "How packets get to NICs of this user on this host: by UDP, or through shared memory (backend uroce)")
      ->type_name("udp|shm|auto")
      ->check(CLI::IsMember({"udp", "shm", "auto"}).description(""))
      ->group(group);
  app.add_option("--pcap", o.pcap,
                 "Write all RoCE packets to FILE (backend uroce); .pcapng: with comments on injected faults")
      ->type_name("FILE")
      ->check(not_an_option())
      ->group(group);
  app.add_option("--faults", o.faults,
                 "Inject faults into the NIC and its network, e.g. loss=1%,dup=0.1% (docs/faults.md)")
      ->type_name("SPEC")
      ->check(CLI::Validator(check_faults, ""))
      ->group(group);
  app.add_option("--seed", o.session.seed,
                 "Same QP numbers, keys and first PSNs in every run; 0: QP numbers from 0x11 on")
      ->type_name("N")
      ->transform(whole_number<std::uint64_t>().description(""))
      ->envname("UROCE_SEED")
      ->group(group);
  app.add_flag("--json", o.json, "One JSON object on stdout, and nothing else there")->group(group);
  app.add_flag("--explain", o.explain,
               "At the end, say what happened on the wire, as `uroce explain` does (backend uroce)")
      ->group(group);
  app.add_flag("--trace", o.trace, "Print every step, why it is taken, and the QPs' states on stderr")->group(group);
  const std::map<std::string, Language> languages = {{"en", Language::kEnglish}, {"zh", Language::kChinese}};
  add_choice(app, "--lang", o.language, languages, "Language of --trace: en, zh; default: as LANG says")
      ->type_name("en|zh")
      ->group(group);
}

/// From version 2.4 on, CLI11 goes on without a variable whose value it does not accept.
void refuse_ignored_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const char* value = option->get_envname().empty() ? nullptr : secure_getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0' || option->count() > 0) continue;
    option->add_result(value);
    option->run_callback();
  }
}

/// A complaint about the value of an option, with the variable in place of the option where the value comes from there.
std::string with_origin(const CLI::App& app, int argc, const char* const* argv, const std::string& why) {
  const std::string name = why.substr(0, why.find(':'));
  const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
  if (option == nullptr || option->get_envname().empty() || secure_getenv(option->get_envname().c_str()) == nullptr ||
      std::any_of(argv, argv + argc, [&name](const char* word) { return std::string_view(word).starts_with(name); })) {
    return why;
  }
  return option->get_envname() + why.substr(name.size());
}

std::string called_as(int argc, const char* const* argv, const std::string& otherwise) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() ? otherwise : name;
}

/// As for all programs: the first of three variables that is set decides.
Language language_of_environment() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* value = secure_getenv(name);
    if (value != nullptr && *value != '\0') {
      return std::string_view(value).starts_with("zh") ? Language::kChinese : Language::kEnglish;
    }
  }
  return Language::kEnglish;
}

}  // namespace

std::variant<Options, RefusedOptions, int> parse_options(Role role, int argc, const char* const* argv) {
  Options options;
  options.language = language_of_environment();
  options.session.role = role;
  const bool client = role == Role::kClient;
  options.program = called_as(argc, argv, client ? client_name() : server_name());
  if (!client) options.session.workload.qps = kMaxQps;
  CLI::App app(client ? "Sends messages to " + server_name() + " over many queue pairs (RC), and reports the results."
                      : "Serves " + client_name() + " over many queue pairs (RC). The client chooses the workload.",
               options.program);
  app.set_version_flag("--version", version_text(app.get_name()));
  app.footer(kExitCodes);
  app.get_formatter()->column_width(34);
  add_place(app, options, role);
  if (client) add_workload(app, options);
  add_transport(app, options, role);
  add_output(app, options);
  app.set_config("--config", "", "Read settings from FILE: lines like num-qp = 16 (INI or TOML)")
      ->type_name("FILE")
      ->group("Backend and output");
  const auto config = std::make_shared<ConfigFile>(app, role);
  app.config_formatter(config);
  app.allow_config_extras(CLI::config_extras_mode::error);
  // Machines that asked for JSON get it, wherever in the line the mistake is.
  options.json = std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  try {
    app.parse(argc, argv);
    refuse_ignored_variables(app);
  } catch (const CLI::Success& help) {
    const int status = app.exit(help);
    if (stdout_is_whole()) return status;
    return RefusedOptions{options, "can't write to stdout"};
  } catch (const CLI::ParseError& error) {
    if (error.get_name() == "RequiredError" && unknown_option(app).empty()) {
      return RefusedOptions{options, "which server? Name the host on which it runs: " + options.program + " HOST"};
    }
    const std::string why = usage_error(app, error);
    return RefusedOptions{options, fmt::format("{}{}. `{} --help` lists all options.", config->place_of(why),
                                               with_origin(app, argc, argv, why), options.program)};
  }
  options.session.mtu_chosen =
      app.get_options([](const CLI::Option* o) { return o->check_lname("mtu"); }).size() == 1 && app.count("--mtu") > 0;
  if (options.device.name == "any") options.device.name.clear();
  options.session.workload.events = client && options.session.events;
  options.session.progress_line = !options.trace;
  if (const auto error = check(options.session.workload)) {
    return RefusedOptions{options, *error};
  }
  return options;
}

}  // namespace uroce::tools
