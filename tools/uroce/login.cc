// SPDX-License-Identifier: Apache-2.0
// The NICs for everything that a user does after the next login.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "proto/base/result.h"
#include "tools/output/print.h"
#include "tools/preload/preload.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/shell_quote.h"

namespace uroce::tools {
namespace {

namespace fs = std::filesystem;

/// By which our line is found again.
constexpr std::string_view kMark = " # uroce enable";

/// The file that login shells of bash read: the first of these that there is. Others read the last one.
std::optional<fs::path> profile() {
  const char* const home = ::secure_getenv("HOME");
  if (home == nullptr || *home == '\0') return std::nullopt;
  std::error_code error;
  for (const char* name : {".bash_profile", ".bash_login", ".profile"}) {
    const fs::path file = fs::path(home) / name;
    if (fs::exists(file, error))
      return fs::canonical(file, error);  // It may be a link into a collection of such files.
  }
  return fs::path(home) / ".profile";
}

struct Profile {
  std::string others;  ///< Its lines, but for ours.
  bool has_ours = false;
};

Result<Profile, std::string> read(const fs::path& file) {
  Profile profile;
  std::error_code error;
  if (!fs::exists(file, error)) return profile;
  std::ifstream in(file);
  if (!in) return Err{fmt::format("can't read {}: {}", file.string(), std::strerror(errno))};
  std::string line;
  while (std::getline(in, line)) {
    if (line.ends_with(kMark)) {
      profile.has_ours = true;
    } else {
      profile.others += line + (in.eof() ? "" : "\n");
    }
  }
  if (in.bad()) return Err{fmt::format("can't read all of {}: {}", file.string(), std::strerror(errno))};
  return profile;
}

/// Whole, or not at all. "", or what is wrong.
std::string write(const fs::path& file, const std::string& text) {
  const std::string beside = file.string() + ".uroce";
  struct stat before {};
  const bool existed = ::stat(file.c_str(), &before) == 0;
  {
    std::ofstream out(beside, std::ios::trunc);
    out << text;
    if (!out.flush()) {
      std::string wrong = fmt::format("can't write {}: {}", beside, std::strerror(errno));
      std::remove(beside.c_str());
      return wrong;
    }
  }
  if ((existed && ::chmod(beside.c_str(), before.st_mode & 07777) != 0) ||
      std::rename(beside.c_str(), file.c_str()) != 0) {
    std::string wrong = fmt::format("can't write {}: {}", file.string(), std::strerror(errno));
    std::remove(beside.c_str());
    return wrong;
  }
  return "";
}

/// The options that are not left out, as a shell takes them.
std::string arguments_of(const RunOptions& options) {
  std::string arguments;
  for (std::size_t i = 0; i < options.settings.size(); ++i) {
    const std::string& value = options.settings.at(i);
    if (!value.empty()) arguments += fmt::format(" --{} {}", ibv::settings().at(i).option, shell_quote(value));
  }
  return arguments;
}

/// What a login shell does: nothing once uroce has been removed.
std::string line_for(const RunOptions& options, const std::string& program) {
  return fmt::format("[ -x {0} ] && eval \"$({0} env{1})\"{2}\n", shell_quote(program), arguments_of(options), kMark);
}

int fail(const std::string& wrong) {
  print_to(stderr, "uroce: {}\n", wrong);
  return 1;
}

}  // namespace

int enable(const RunOptions& options) {
  for (std::size_t i = 0; i < options.settings.size(); ++i) {
    const std::string& value = options.settings.at(i);
    if (value.find('\n') != std::string::npos) return fail("a setting is one line");
    if (const std::string wrong = ibv::settings().at(i).check(value); !value.empty() && !wrong.empty())
      return fail(wrong);
  }
  // Else each login would say so.
  if (const auto wrong = preload_library()) return fail(*wrong);
  const fs::path program = own_program();
  if (program.empty()) return fail("the file of this program can't be found; mount /proc, or start it by its path");
  const auto file = profile();
  if (!file) return fail("HOME is not set");
  auto before = read(*file);
  if (!before.ok()) return fail(before.error());
  if (!before->others.empty() && before->others.back() != '\n') before->others += '\n';
  if (const std::string wrong = write(*file, before->others + line_for(options, program.string())); !wrong.empty())
    return fail(wrong);
  print_to(
      stdout,
      "{}: from the next login on, all programs find the emulated NICs instead of the machine's. Now: eval \"$(uroce "
      "env{})\"\n",
      file->string(), arguments_of(options));
  return 0;
}

int disable() {
  const auto file = profile();
  if (!file) return fail("HOME is not set");
  const auto before = read(*file);
  if (!before.ok()) return fail(before.error());
  if (!before->has_ours) {
    print_to(stdout, "{}: uroce is not enabled there\n", file->string());
    return 0;
  }
  std::error_code error;
  if (before->others.empty() && fs::remove(*file, error)) {
    print_to(stdout, "{}: removed, since nothing else was in it\n", file->string());
    return 0;
  }
  if (const std::string wrong = write(*file, before->others); !wrong.empty()) return fail(wrong);
  print_to(stdout, "{}: from the next login on, programs find the machine's own devices\n", file->string());
  return 0;
}

}  // namespace uroce::tools
