// SPDX-License-Identifier: Apache-2.0
#include "tools/backend/rdmacm.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/backend/rdmacm_table.h"
#include "tools/preload/preload.h"

namespace uroce::tools {
namespace {

/// Set for the second start, which must find what the first one prepared.
constexpr const char* kStartedAgain = "UROCE_STARTED_AGAIN";

const ibv::ToolVerbs* g_verbs = nullptr;

/// Those of our own libibverbs, if it has been preloaded into this process; else null.
const ibv::ToolVerbs* preloaded_verbs() {
  const auto* verbs = static_cast<const ibv::ToolVerbs*>(dlsym(RTLD_DEFAULT, ibv::kToolVerbsSymbol));
  Dl_info info{};
  if (verbs == nullptr || dladdr(verbs, &info) == 0) return nullptr;
  std::error_code error;  // The table of another build may look different.
  return std::filesystem::equivalent(info.dli_fname, library_path(), error) ? verbs : nullptr;
}

/// Returns only on failure, with the reason.
std::string start_again(const char* const* argv) {
  if (secure_getenv(kStartedAgain) != nullptr) {
    return "the loader has not loaded " + library_path() + " first, although LD_PRELOAD says so";
  }
  if (auto error = preload_library()) return *error;
  setenv(kStartedAgain, "1", 1);
  execv(own_program().c_str(), const_cast<char* const*>(argv));
  return fmt::format("can't start this program again with {} preloaded: {}", library_path(), std::strerror(errno));
}

std::optional<std::string> load_rdmacm() {
  void* library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return fmt::format("--cm needs the system's librdmacm ({}); install librdmacm1",
                       reason != nullptr ? reason : "librdmacm.so.1");
  }
  RdmaCmTable& table = rdma_cm_table();
#define UROCE_CM(ret, name, params, args)                              \
  table.name = reinterpret_cast<ret(*) params>(dlsym(library, #name)); \
  if (table.name == nullptr) return "the system's librdmacm is too old: it lacks " #name;
#include "tools/backend/rdmacm_functions.def"
#undef UROCE_CM
  return std::nullopt;  // stays loaded until the process ends, as objects of it may live that long
}

}  // namespace

std::optional<std::string> select_rdma_cm(Backend backend, const char* const* argv) {
  if (backend == Backend::kUroce) {
    g_verbs = preloaded_verbs();
    if (g_verbs == nullptr) return start_again(argv);
  }
  unsetenv(kStartedAgain);
  return load_rdmacm();
}

const ibv::ToolVerbs* rdma_cm_verbs() { return g_verbs; }

}  // namespace uroce::tools
