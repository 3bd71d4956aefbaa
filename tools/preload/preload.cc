// SPDX-License-Identifier: Apache-2.0
#include "tools/preload/preload.h"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace uroce::tools {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

/// Puts `first` before what the list `variable` has already, unless it begins so.
void prepend(const char* variable, const std::string& first) {
  const char* const rest = secure_getenv(variable);
  if (rest != nullptr && (std::string(rest) + ':').starts_with(first + ':')) return;
  const std::string list = rest == nullptr || *rest == '\0' ? first : first + ':' + rest;
  ::setenv(variable, list.c_str(), /*overwrite=*/1);
}

}  // namespace

std::filesystem::path own_program() {
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  // Without /proc: as it was started, from this directory.
  const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return started == nullptr ? std::filesystem::path() : std::filesystem::canonical(started, error);
}

std::string library_path() {
  std::error_code error;
  const auto libraries = own_program().parent_path().parent_path() / "lib";
  const auto installed = libraries / "uroce" / kLibrary;
  const bool is_installed = std::filesystem::exists(installed, error) || error;  // Or nobody may look.
  return (is_installed ? installed : libraries / kLibrary).string();
}

std::optional<std::string> refused_path(const std::string& library) {
  // Where the loader takes one name to end, or a variable of its own to begin. It knows no way to quote.
  if (library.find_first_of(" :;$") == std::string::npos) return std::nullopt;
  return fmt::format("the loader can't preload {}: there is a space, colon, semicolon or dollar in its path", library);
}

std::optional<Trouble> unreadable(const std::string& library) {
  if (::access(library.c_str(), R_OK) == 0) return std::nullopt;
  const int error = errno;
  if (error != EACCES)
    return Trouble{library + " is not there: " + std::strerror(error),
                   "build the target uroce_libibverbs, or install all of uroce"};
  const auto root = own_program().parent_path().parent_path();
  return Trouble{"this user may not read " + library, "let its owner do: chmod -R a+rX " + root.string()};
}

std::optional<std::string> preload_library() {
  const std::string library = library_path();
  if (const auto trouble = unreadable(library)) return trouble->what + "; " + trouble->remedy;
  if (const auto why = refused_path(library)) return fmt::format("{}; {}", *why, kAnotherFolder);
  // The preload serves programs whose own search path would find the system's library; the path serves those that
  // open "libibverbs.so" at run time.
  prepend("LD_PRELOAD", library);
  prepend("LD_LIBRARY_PATH", std::filesystem::path(library).parent_path().string());
  // Programs with gcc's address sanitizer insist on its library being the first; it need not be, before ours.
  prepend("ASAN_OPTIONS", "verify_asan_link_order=0");
  return std::nullopt;
}

}  // namespace uroce::tools
