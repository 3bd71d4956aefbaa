// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "proto/capture_file.h"
#include "tools/backend/unknown_settings.h"
#include "tools/output/print.h"
#include "tools/preload/preload.h"
#include "tools/preload/unreached.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/shell_quote.h"

namespace uroce::tools {
namespace {

constexpr int kUsage = 2, kCannotExecute = 126, kNoSuchCommand = 127;

void set(const char* variable, const std::string& value) {
  if (!value.empty()) ::setenv(variable, value.c_str(), /*overwrite=*/1);
}

/// Programs may change their directory.
void set_recordings(const std::string& directory) {
  std::error_code error;
  if (!directory.empty()) set("UROCE_RECORD", std::filesystem::absolute(directory, error).string());
}

/// One capture for all processes of the command: it begins here, and they go on with it, wherever they are. False, and
/// a message, when it can't be written.
bool set_capture(const std::string& file) {
  constexpr std::string_view kGoOn = ">>";
  if (file.empty() || file.starts_with(kGoOn)) {
    set("UROCE_PCAP", file);
    return true;
  }
  std::error_code error;
  const std::string path = std::filesystem::absolute(file, error).string();
  // A pipe waits for its reader, so only the command opens it. What can't be looked at, or is a directory, can't be
  // opened either, and that is said here.
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::is_other(status)) {
    const auto begun = proto::CaptureFile::open(path, proto::CaptureFile::Start::kAnew);
    if (!begun.ok()) print_to(stderr, "uroce: --pcap: {}\n", begun.error());
    if (!begun.ok()) return false;
  }
  set("UROCE_PCAP", std::string(kGoOn) + path);
  return true;
}

/// Sets up the environment of this process. The exit status, after a message, when it can't be done.
int set_environment(const RunOptions& options) {
  warn_of_misspelt_settings("uroce");
  const ibv::SettingTable& table = ibv::settings();
  for (std::size_t i = 0; i < table.size(); ++i) set(table.at(i).name, options.settings.at(i));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string wrong = table.at(i).check(ibv::setting(static_cast<ibv::Setting>(i)));
    if (wrong.empty()) continue;
    print_to(stderr, "uroce: {}\n", wrong);
    return kUsage;
  }
  if (!set_capture(ibv::setting(ibv::Setting::kPcap))) return kUsage;
  set_recordings(ibv::setting(ibv::Setting::kRecord));
  if (const auto error = preload_library()) {
    print_to(stderr, "uroce: {}\n", *error);
    return kUsage;
  }
  return 0;
}

using Variables = std::vector<std::pair<const char*, std::string>>;

/// What set_environment() has set.
Variables all_variables() {
  Variables all;
  for (const char* name : kPreloadVariables) all.emplace_back(name, secure_getenv(name));
  for (std::size_t i = 0; i < ibv::settings().size(); ++i) {
    const std::string value = ibv::setting(static_cast<ibv::Setting>(i));
    if (!value.empty()) all.emplace_back(ibv::settings().at(i).name, value);
  }
  return all;
}

/// The variable whose value is more than one line, or nullptr.
const char* of_several_lines(const Variables& variables) {
  const auto found =
      std::ranges::find_if(variables, [](const auto& v) { return v.second.find('\n') != std::string::npos; });
  return found == variables.end() ? nullptr : found->first;
}

}  // namespace

int print_environment(const RunOptions& options, bool plain) {
  if (const int status = set_environment(options)) return status;
  const Variables variables = all_variables();
  const char* const bad = plain ? of_several_lines(variables) : nullptr;
  if (bad != nullptr) {  // Its second line would set another variable.
    print_to(stderr, "uroce: {} is more than one line, and --plain can't quote it: give it another value\n", bad);
    return kUsage;
  }
  for (const auto& [name, value] : variables) {
    plain ? print_to(stdout, "{}={}\n", name, value) : print_to(stdout, "export {}={}\n", name, shell_quote(value));
  }
  return 0;
}

int run(const RunOptions& options) {
  if (const int status = set_environment(options)) return status;
  if (const auto why = why_unreached(options.command.front())) print_to(stderr, "uroce: warning: {}\n", *why);
  std::vector<char*> argv;
  for (const std::string& argument : options.command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  print_to(stderr, "uroce: {}: {}\n", options.command.front(), std::strerror(error));
  return error == ENOENT ? kNoSuchCommand : kCannotExecute;
}

}  // namespace uroce::tools
