// SPDX-License-Identifier: Apache-2.0
// Loads a verbs implementation from a shared library, symbol by symbol.
//
// The library and the providers that it loads in turn must bind to each other, not to the functions of the same names
// in verbs_forward.cc. Those have hidden visibility, so the dynamic linker never sees them (a test looks at the
// binary's dynamic symbols); RTLD_LOCAL keeps the library's own names out of everybody else's way.
#include <dlfcn.h>

#include <string>

#include "tools/backend/backend.h"

namespace uroce::tools {
namespace {

/// The function `name` in the version that <infiniband/verbs.h> is written for; its default version as a fallback.
void* find_symbol(void* library, const char* name, const char* version) {
  void* symbol = dlvsym(library, name, version);
  return symbol != nullptr ? symbol : dlsym(library, name);
}

}  // namespace

std::optional<std::string> load_verbs(const char* soname, ibv::VerbsTable& table) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return "can't load the system's libibverbs (" + std::string(reason != nullptr ? reason : soname) +
           "); install libibverbs1 and ibverbs-providers, or use --backend uroce";
  }
  // A function that an older library lacks stays null; its forwarder answers EOPNOTSUPP. What every library has:
#define UROCE_VERB(ret, name, params, args, version) \
  table.name = reinterpret_cast<ret(*) params>(find_symbol(library, #name, version));
#include "verbs/ibverbs/catalogue/functions.def"
#undef UROCE_VERB
  if (table.ibv_get_device_list == nullptr || table.ibv_open_device == nullptr || table.ibv_create_qp == nullptr) {
    return std::string(soname) + " is not a verbs library: it lacks ibv_open_device; use --backend uroce";
  }
  return std::nullopt;  // stays loaded until the process ends, as objects of it may live that long
}

}  // namespace uroce::tools
