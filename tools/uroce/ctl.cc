// SPDX-License-Identifier: Apache-2.0
// Commands for running processes, through the header that test suites use.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/os/namespaces.h"
#include "proto/base/number.h"
#include "proto/base/printable.h"
#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/process_name.h"
#include "verbs/include/uroce/control.h"

namespace uroce::tools {
namespace {

std::optional<pid_t> pid_of(std::string_view text) {
  const auto pid = parse_number<pid_t>(text);
  return pid > 0 ? pid : std::nullopt;
}

/// Whether it is process `pid` that listens under the name of process `pid`. Another user's may not let us ask more.
bool is_itself(pid_t pid) {
  int connection = -1;
  const int error = ::uroce_control_connect(pid, &connection);
  if (error == 0) ::close(connection);
  return error == 0 || error == EACCES || error == EPERM;
}

/// The names of abstract Unix sockets in this network namespace, with "@" for the zero byte; none where /proc does not
/// show them (subset=pid).
std::set<std::string> abstract_names() {
  std::set<std::string> names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (const std::size_t at = line.find('@'); at != std::string::npos) names.insert(line.substr(at));
  }
  return names;
}

/// The abstract name of process `pid`, 0: this one. Nothing where we may not know.
std::optional<std::string> control_name(pid_t pid) {
  sockaddr_un address{};
  socklen_t length = 0;
  if (::uroce_control_address(pid, &address, &length) != 0) return std::nullopt;
  return "@" + std::string(address.sun_path + 1);
}

/// Processes of this network namespace that take commands from somebody.
std::set<pid_t> listeners() {
  const std::set<std::string> names = abstract_names();
  std::set<pid_t> found;
  // Of our own PID namespace, also those of other users.
  if (const auto own = control_name(0)) {
    const std::string prefix = own->substr(0, own->rfind('/') + 1);
    for (auto name = names.lower_bound(prefix); name != names.end() && name->starts_with(prefix); ++name) {
      if (const auto pid = pid_of(std::string_view(*name).substr(prefix.size()))) found.insert(*pid);
    }
  }
  // Of all that we see, as those of a container: what we may look at.
  std::error_code error;
  for (std::filesystem::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const auto pid = pid_of(process->path().filename().native());
    const auto name = pid ? control_name(*pid) : std::nullopt;
    if (name && (names.empty() || names.contains(*name))) found.insert(*pid);
  }
  std::erase_if(found, [](pid_t pid) { return !is_itself(pid); });
  return found;
}

/// Whether another user has process `pid`. Its files of /proc may also be closed for other reasons.
bool is_of_another(pid_t pid) {
  struct stat about {};
  const bool is_known = ::stat(fmt::format("/proc/{}", pid).c_str(), &about) == 0;
  return ::geteuid() != 0 && !(is_known && about.st_uid == ::geteuid());
}

std::string explain(pid_t pid, int error) {
  if ((error == EACCES || error == EPERM) && !is_of_another(pid)) error = ECONNREFUSED;
  switch (error) {
    case ENOENT:
      return "there is no such process";
    case ECONNREFUSED:
      if (engine::shares_namespace(static_cast<std::uint32_t>(pid), "net") == false)
        return fmt::format(
            "it is in another network namespace: give the command there, with nsenter --target {} --net "
            "in front",
            pid);
      return "it takes no commands: start it with `uroce run --control on`, and wait until it has asked for RDMA "
             "devices";
    case EACCES:
    case EPERM:
      return "it belongs to another user";
    case EADDRINUSE:
      return "another process has the name under which it would take commands: start it again, its name will be "
             "another one";
    case EAGAIN:
      return fmt::format("no answer within {} s: is it stopped? Then it may execute the command when it goes on",
                         UROCE_CONTROL_SECONDS);
    default:
      return std::strerror(error);
  }
}

/// 0, or an errno value; prints what there is to say.
int tell(pid_t pid, const std::string& command, bool with_pid) {
  std::string answer(UROCE_CONTROL_ANSWER + 1, '\0');
  const int error = ::uroce_control(pid, command.c_str(), answer.data(), answer.size());
  answer.resize(std::strlen(answer.c_str()));
  if (error != 0) {
    if (answer.empty() || error != EINVAL) answer = explain(pid, error);
    answer.erase(answer.find_last_not_of('\n') + 1);
    print_to(stderr, "uroce: process {}: {}\n", pid, proto::printable(answer));
    return error;
  }
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    line = proto::printable(line);  // Root may ask another user's process.
    with_pid ? print_to(stdout, "{} {}\n", pid, line) : print_to(stdout, "{}\n", line);
  }
  return 0;
}

/// Returns 1, as an exit status.
int say_that_nobody_listens() {
  print_to(stderr, "uroce: no process takes commands: start one with `uroce run --control on`\n");
  return 1;
}

}  // namespace

int control(const std::string& whom, const std::vector<std::string>& words) {
  if (whom.empty()) {
    const auto pids = listeners();
    for (const pid_t pid : pids) print_to(stdout, "{} {}\n", pid, process_name(std::to_string(pid)));
    return pids.empty() ? say_that_nobody_listens() : 0;
  }
  std::string command = fmt::format("{}", fmt::join(words, " "));
  if (command.find_first_not_of(' ') == std::string::npos) command = "list";
  if (whom == "all") {
    const auto pids = listeners();
    if (pids.empty()) return say_that_nobody_listens();
    bool done = false;
    for (const pid_t pid : pids) {
      done = tell(pid, command, /*with_pid=*/true) == 0 || done;
      std::fflush(stdout);  // The next one may be stopped.
    }
    return done ? 0 : 1;
  }
  const auto pid = pid_of(whom);
  if (!pid) {
    print_to(stderr, "uroce: '{}' is no process: expected a number, or all\n", whom);
    return 2;
  }
  const int error = tell(*pid, command, /*with_pid=*/false);
  return error == ENOENT ? 2 : error != 0 ? 1 : 0;
}

}  // namespace uroce::tools
