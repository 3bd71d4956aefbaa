// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/run_tool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

#include "proto/base/fd.h"
#include "tools/backend/rdmacm.h"
#include "tools/backend/unknown_settings.h"
#include "tools/control/interrupt.h"
#include "tools/explain/explain.h"
#include "tools/output/standard_descriptors.h"
#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

/// Hands an option to the emulated NIC, which reads its environment when it is opened.
void tell_emulated_nic(const Options& options, const char* option, const char* variable, const std::string& value) {
  if (value.empty()) return;
  if (options.backend != Backend::kUroce) {
    throw Failure(kExitUsage,
                  fmt::format("{} needs --backend uroce: we do not see the packets of a hardware NIC", option));
  }
  setenv(variable, value.c_str(), 1);
}

void select_backend_and_environment(const Options& options) {
  tell_emulated_nic(options, "--addr", "UROCE_ADDR", options.addr);
  tell_emulated_nic(options, "--pcap", "UROCE_PCAP", options.pcap);
  tell_emulated_nic(options, "--wire", "UROCE_WIRE", options.wire);
  tell_emulated_nic(options, "--faults", "UROCE_FAULTS", options.faults);
  if (options.session.seed) setenv("UROCE_SEED", std::to_string(*options.session.seed).c_str(), 1);
  if (const auto error = select_backend(options.backend)) throw Failure(kExitUsage, *error);
}

/// With --explain: a capture of the run, and its story at the end.
class OwnStory {
 public:
  explicit OwnStory(const Options& options) : file_(options.pcap), is_wanted_(options.explain) {
    if (!is_wanted_) return;
    if (options.json)
      throw Failure(kExitUsage, "--explain prints text on stdout, --json a JSON object: leave one of them out");
    if (!file_.empty()) return;
    if (options.backend != Backend::kUroce) {
      throw Failure(kExitUsage, "--explain needs --backend uroce: we do not see the packets of a hardware NIC");
    }
    std::error_code error;
    file_ = (std::filesystem::temp_directory_path(error) / "uroce-explain-XXXXXX.pcapng").string();
    const Fd made(::mkostemps(file_.data(), static_cast<int>(std::string_view(".pcapng").size()), O_CLOEXEC));
    if (!made) throw Failure(kExitUsage, fmt::format("--explain: can't make {}: {}", file_, std::strerror(errno)));
    is_ours_ = true;
    setenv("UROCE_PCAP", file_.c_str(), 1);
  }
  /// When the NIC is closed.
  ~OwnStory() {
    if (!is_wanted_) return;
    print_to(stdout, "\n");
    std::fflush(stdout);
    explain::Options story;
    story.files = {file_};
    explain::explain(story);
    if (is_ours_) ::unlink(file_.c_str());
  }
  OwnStory(const OwnStory&) = delete;
  OwnStory& operator=(const OwnStory&) = delete;

 private:
  std::string file_;
  bool is_wanted_;
  bool is_ours_ = false;
};

/// A failure outside of any session, perhaps with a device that is open.
ExitCode report_failure(const Options& options, ExitCode code, const std::string& sentence,
                        const RdmaOwner& resources = nullptr) {
  Report report;
  if (resources) report.describe_device(*resources);
  report.options = &options;
  report.exit_code = code;
  report.error = sentence;
  return print_report(report);
}

/// Where nobody has said which address the NIC is to have: the one by which TCP reaches a peer on another host. A peer
/// on this host is reached on a loopback address.
void move_nic(const Options& options, const Control& control, RdmaOwner& resources) {
  const bool moves = place_nic(control.is_local() ? "" : control.local_address());
  if (!moves && resources) return;
  resources.reset();
  resources = open_device(options.device);
}

}  // namespace

int run_tool(Role role, int argc, const char* const* argv, const ToolBody& body) {
  const auto parsed = parse_options(role, argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  if (const auto* refused = std::get_if<RefusedOptions>(&parsed)) {
    return report_failure(refused->options, kExitUsage, refused->why);
  }
  const Options& options = std::get<Options>(parsed);
  g_trace = options.trace;
  g_language = options.language;
  try {
    occupy_standard_descriptors(O_RDWR);
    warn_of_misspelt_settings(options.program);
    if (options.session.cm) {
      if (const auto error = select_rdma_cm(options.backend, argv)) throw Failure(kExitUsage, *error);
    }
    install_interrupt_handlers();
    select_backend_and_environment(options);
    if (options.session.cm && role == Role::kClient) place_nic(address_towards(options.server));
    const OwnStory story(options);
    RdmaOwner resources;
    try {
      return body(options, resources);
    } catch (const Failure& failure) {
      return report_failure(options, failure.exit_code(), failure.what(), resources);
    }
  } catch (const Failure& failure) {
    return report_failure(options, failure.exit_code(), failure.what());
  } catch (const std::exception& error) {  // out of memory, mostly
    return report_failure(options, kExitFailed, error.what());
  }
}

ExitCode run_and_report(const Options& options, Connection connection, RdmaOwner& resources) {
  Report report;
  report.options = &options;
  Control control(std::move(connection), options.session.role == Role::kClient ? "the server" : "the client");
  try {
    if (!options.session.cm) move_nic(options, control, resources);
    run_session(options.session, control, *resources, report.outcome);
  } catch (const Failure& failure) {
    report.exit_code = failure.exit_code();
    report.error = failure.what();
    control.abort(failure.what());  // Nothing if the session has told the peer already.
  }
  if (resources) report.describe_device(*resources);
  // That of --explain has no name for others; it is gone when they could look.
  if (report.nic && options.explain && options.pcap.empty() && report.nic->pcap_error.empty()) report.nic->pcap.clear();
  return print_report(report);
}

}  // namespace uroce::tools
