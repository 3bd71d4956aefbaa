// SPDX-License-Identifier: Apache-2.0
// The NICs for everything that a user does after the next login.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/fd.h"
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

/// Where the links from `file`, which is not there, end. No more of them than the kernel follows.
fs::path behind_links(fs::path file) {
  std::error_code error;
  for (int i = 0; i < 40 && fs::is_symlink(file, error); ++i) {
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  return file;
}

std::string login_shell() {
  const char* const shell = ::secure_getenv("SHELL");
  return shell == nullptr ? "" : fs::path(shell).filename().string();
}

bool reads_lines_of_ours(const std::string& shell) { return shell != "fish" && !shell.ends_with("csh"); }

/// The file that login shells read: the first of these that there is. Else the last one is made.
std::vector<const char*> profiles_of(const std::string& shell) {
  if (shell == "zsh") return {".zprofile"};
  return {".bash_profile", ".bash_login", ".profile"};  // Bash; others read the last one.
}

/// Where our line goes. No link, but maybe behind one, as in a collection of such files.
Result<fs::path, std::string> profile() {
  const char* const home = ::secure_getenv("HOME");
  if (home == nullptr || *home == '\0') return Err{std::string("HOME is not set")};
  const std::vector<const char*> names = profiles_of(login_shell());
  for (const char* name : names) {
    const fs::path file = fs::path(home) / name;
    struct stat facts {};
    if (::stat(file.c_str(), &facts) != 0) {
      if (errno == ENOENT) continue;
      return Err{fmt::format("can't use {}: {}; mend or remove it", file.string(), std::strerror(errno))};
    }
    if (!S_ISREG(facts.st_mode))
      return Err{fmt::format("{} is no regular file, so no line can be added to it: make it one, or remove it",
                             file.string())};
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    if (error) return Err{fmt::format("can't use {}: {}", file.string(), error.message())};
    return real;
  }
  return behind_links(fs::path(home) / names.back());
}

struct Profile {
  std::string others;  ///< Its lines, but for ours.
  bool has_ours = false;
  bool exists = false;
  struct stat facts {};
};

/// All that can be read from `fd`. errno when that is not everything.
std::string text_of(int fd, int& error) {
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t n; (n = ::read(fd, block.data(), block.size())) != 0;) {
    if (n > 0) {
      text.append(block.data(), static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      error = errno;
      break;
    }
  }
  return text;
}

Result<Profile, std::string> read(const fs::path& file) {
  Profile profile;
  // Who put something else in its place meanwhile has us neither wait nor read that.
  const Fd fd{::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (!fd && errno == ENOENT) return profile;
  int error = fd ? 0 : errno;
  if (error == 0 && ::fstat(fd.get(), &profile.facts) != 0) error = errno;
  if (error == 0 && !S_ISREG(profile.facts.st_mode)) error = EINVAL;
  const std::string text = error == 0 ? text_of(fd.get(), error) : "";
  if (error != 0) return Err{fmt::format("can't read {}: {}", file.string(), std::strerror(error))};
  profile.exists = true;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with(kMark)) {
      profile.has_ours = true;
    } else {
      profile.others += line + (in.eof() ? "" : "\n");
    }
  }
  return profile;
}

/// For a file that is made: root may have the HOME of somebody else.
int give_to_owner_of(const fs::path& folder, int fd) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat facts {};
  // It stays ours where root has no right to that, as in some containers.
  [[maybe_unused]] const bool is_given =
      ::geteuid() == 0 && ::stat(folder.c_str(), &facts) == 0 && ::fchown(fd, facts.st_uid, facts.st_gid) == 0;
  return ::fchmod(fd, 0666 & ~mask) == 0 ? 0 : errno;
}

/// Owner and mode as `before`. In this order: a new owner takes bits from the mode.
int make_like(const struct stat& before, int fd) {
  struct stat now {};
  if (::fstat(fd, &now) != 0) return errno;
  const bool is_same = now.st_uid == before.st_uid && now.st_gid == before.st_gid;
  if (!is_same && ::fchown(fd, before.st_uid, before.st_gid) != 0) return errno;
  return ::fchmod(fd, before.st_mode & 07777) == 0 ? 0 : errno;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

/// Whole, or not at all. "", or what is wrong. `before`: what read() has found there.
std::string write(const fs::path& file, const Profile& before, const std::string& text) {
  std::string beside = file.string() + ".uroceXXXXXX";
  const Fd fd{::mkostemp(beside.data(), O_CLOEXEC)};
  if (!fd) return fmt::format("can't make a file in {}: {}", file.parent_path().string(), std::strerror(errno));
  int error = write_all(fd.get(), text);
  const bool is_written = error == 0;
  if (is_written)
    error = before.exists ? make_like(before.facts, fd.get()) : give_to_owner_of(file.parent_path(), fd.get());
  const bool is_foreign = is_written && before.exists && error != 0;
  // A name must not stand for bytes that a power failure takes away.
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error == 0 && std::rename(beside.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return "";
  std::remove(beside.c_str());
  if (is_foreign)
    return fmt::format("{} is not of your user and group, and would not stay so: do this as root", file.string());
  return fmt::format("can't write {}: {}", file.string(), std::strerror(error));
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
  if (const std::string shell = login_shell(); !reads_lines_of_ours(shell)) {
    return fail(
        fmt::format("your login shell (SHELL) is {}, which reads no file with lines of sh: have it set what "
                    "'uroce env --plain' prints",
                    shell));
  }
  // Else each login would say so.
  if (const auto wrong = preload_library()) return fail(*wrong);
  const fs::path program = own_program();
  if (program.empty()) return fail("the file of this program can't be found; mount /proc, or start it by its path");
  const auto file = profile();
  if (!file.ok()) return fail(file.error());
  auto before = read(*file);
  if (!before.ok()) return fail(before.error());
  if (!before->others.empty() && before->others.back() != '\n') before->others += '\n';
  if (const std::string wrong = write(*file, *before, before->others + line_for(options, program.string()));
      !wrong.empty())
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
  if (!file.ok()) return fail(file.error());
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
  if (const std::string wrong = write(*file, *before, before->others); !wrong.empty()) return fail(wrong);
  print_to(stdout, "{}: from the next login on, programs find the machine's own devices\n", file->string());
  return 0;
}

}  // namespace uroce::tools
