// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

#include "proto/base/fd.h"
#include "tools/backend/rdmacm.h"
#include "tools/backend/unknown_settings.h"
#include "tools/cli/usage.h"
#include "tools/control/interrupt.h"
#include "tools/explain/explain.h"
#include "tools/output/standard_descriptors.h"
#include "tools/rdma/trace.h"
#include "verbs/ibverbs/catalogue/settings.h"

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

/// With --explain, a capture that the environment names is the one to tell about.
void take_capture_of_environment(Options& options) {
  if (!options.explain || !options.pcap.empty() || options.backend != Backend::kUroce) return;
  options.pcap = ibv::setting(ibv::Setting::kPcap);
}

/// Whether nobody reads stdout any more.
bool reader_has_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/// With --explain: a capture of the run, and its story at the end.
class OwnStory {
 public:
  explicit OwnStory(const Options& options) : program_(options.program), is_wanted_(options.explain) {
    if (!is_wanted_) return;
    if (options.json)
      throw Failure(kExitUsage, "--explain prints text on stdout, --json a JSON object: leave one of them out");
    if (options.backend != Backend::kUroce) {
      throw Failure(kExitUsage, "--explain needs --backend uroce: we do not see the packets of a hardware NIC");
    }
    if (options.pcap.empty()) {
      make_file();
    } else {
      take_file(options.pcap);
    }
  }
  ~OwnStory() {
    if (is_ours_) ::unlink(file_.c_str());
  }
  OwnStory(const OwnStory&) = delete;
  OwnStory& operator=(const OwnStory&) = delete;

  /// When the NIC is closed. The exit status: `code`, or that of a failure when all went well and the story is cut.
  ExitCode tell(ExitCode code) {
    std::error_code error;
    // Without a packet there is no story, nor with those of an earlier run; and who lost the summary has been told so.
    if (!is_wanted_ || std::filesystem::file_size(file_, error) == 0 || error || std::ferror(stdout) != 0) return code;
    if (last_written(file_) == written_before_) return code;
    print_to(stdout, "\n");
    std::fflush(stdout);
    explain::Options story;
    story.files = {file_};
    explain::explain(story);
    errno = 0;
    if (stdout_is_whole() || reader_has_gone()) return code;
    print_to(stderr, "{}: can't write the story to stdout: {}\n", program_,
             errno != 0 ? std::strerror(errno) : "output is missing");
    return code == kExitOk ? kExitFailed : code;
  }

 private:
  void make_file() {
    std::error_code error;
    file_ = (std::filesystem::temp_directory_path(error) / "uroce-explain-XXXXXX.pcapng").string();
    const Fd made(::mkostemps(file_.data(), static_cast<int>(std::string_view(".pcapng").size()), O_CLOEXEC));
    if (!made) throw Failure(kExitUsage, fmt::format("--explain: can't make {}: {}", file_, std::strerror(errno)));
    is_ours_ = true;
    setenv("UROCE_PCAP", file_.c_str(), 1);
  }
  /// `capture`: as UROCE_PCAP. What goes through a FIFO is gone at the end.
  void take_file(const std::string& capture) {
    file_ = capture.substr(capture.starts_with(">>") ? 2 : 0);
    std::error_code error;
    const auto status = std::filesystem::status(file_, error);
    written_before_ = last_written(file_);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
    throw Failure(kExitUsage, fmt::format("--explain reads the capture at the end, and {} is no regular file: name "
                                          "another one, or leave out one of the two",
                                          file_));
  }

  /// Nothing when there is no such file.
  static std::optional<std::filesystem::file_time_type> last_written(const std::string& file) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(file, error);
    return error ? std::nullopt : std::optional(time);
  }

  std::string program_, file_;
  std::optional<std::filesystem::file_time_type> written_before_;
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

/// The NIC is closed behind it.
ExitCode run_with_device(const Options& options, const ToolBody& body) {
  RdmaOwner resources;
  try {
    return body(options, resources);
  } catch (const Failure& failure) {
    return report_failure(options, failure.exit_code(), failure.what(), resources);
  }
}

}  // namespace

int run_tool(Role role, int argc, const char* const* argv, const ToolBody& body) {
  auto parsed = parse_options(role, argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  if (const auto* refused = std::get_if<RefusedOptions>(&parsed)) {
    return report_failure(refused->options, kExitUsage, refused->why);
  }
  Options& options = std::get<Options>(parsed);
  take_capture_of_environment(options);
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
    OwnStory story(options);
    return story.tell(run_with_device(options, body));
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
