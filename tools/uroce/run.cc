#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "proto/capture_file.h"
#include "tools/uroce/commands.h"

namespace uroce::tools {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";
constexpr int kUsage = 2, kCannotExecute = 126, kNoSuchCommand = 127;

void set(const char* variable, const std::string& value) {
  if (!value.empty()) ::setenv(variable, value.c_str(), /*overwrite=*/1);
}

/// Puts `first` before what the list `variable` has already.
void prepend(const char* variable, const std::string& first) {
  const char* const rest = secure_getenv(variable);
  set(variable, rest == nullptr || *rest == '\0' ? first : first + ':' + rest);
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
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found) {
    const auto begun = proto::CaptureFile::open(path, proto::CaptureFile::Start::kAnew);
    if (!begun.ok()) fmt::print(stderr, "uroce: --pcap: {}\n", begun.error());
    if (!begun.ok()) return false;
  }
  set("UROCE_PCAP", std::string(kGoOn) + path);
  return true;
}

}  // namespace

std::string library_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto libraries = self.parent_path().parent_path() / "lib";
  const auto installed = libraries / "uroce" / kLibrary;
  return (std::filesystem::exists(installed, error) ? installed : libraries / kLibrary).string();
}

int run(const RunOptions& options) {
  const std::string library = library_path();
  if (::access(library.c_str(), R_OK) != 0) {
    fmt::print(stderr, "uroce: {} is not there ({}); build the target uroce_libibverbs\n", library,
               std::strerror(errno));
    return kUsage;
  }
  // Where the loader takes one name to end, or a variable of its own to begin. It knows no way to quote.
  if (library.find_first_of(" :;$") != std::string::npos) {
    fmt::print(stderr,
               "uroce: the loader can't preload {}: there is a space, colon, semicolon or dollar in its path; build or "
               "install uroce in another folder\n",
               library);
    return kUsage;
  }
  const ibv::SettingTable& table = ibv::settings();
  for (std::size_t i = 0; i < table.size(); ++i) set(table.at(i).name, options.settings.at(i));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string wrong = table.at(i).check(ibv::setting(static_cast<ibv::Setting>(i)));
    if (wrong.empty()) continue;
    fmt::print(stderr, "uroce: {}\n", wrong);
    return kUsage;
  }
  if (!set_capture(ibv::setting(ibv::Setting::kPcap))) return kUsage;
  // The preload serves programs whose own search path would find the system's library; the path serves those that
  // open "libibverbs.so" at run time.
  prepend("LD_PRELOAD", library);
  prepend("LD_LIBRARY_PATH", std::filesystem::path(library).parent_path().string());

  // Programs with gcc's address sanitizer insist on its library being the first; it need not be, before ours.
  prepend("ASAN_OPTIONS", "verify_asan_link_order=0");

  std::vector<char*> argv;
  for (const std::string& argument : options.command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  fmt::print(stderr, "uroce: {}: {}\n", options.command.front(), std::strerror(error));
  return error == ENOENT ? kNoSuchCommand : kCannotExecute;
}

}  // namespace uroce::tools
