// libibverbs.so.1 as an unmodified program sees it: the dynamic symbols with their versions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "verbs/ibverbs/verbs_table.h"

namespace uroce::ibv {
namespace {

struct Symbol {
  const char* name;
  const char* version;
};
constexpr Symbol kSymbols[] = {
#define UROCE_VERB(ret, name, params, args, version) {#name, version},
#include "verbs/ibverbs/functions.def"
#include "verbs/ibverbs/functions_extra.def"
#undef UROCE_VERB
};

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

Library open_library(const char* path) {
  Library library(dlopen(path, RTLD_NOW | RTLD_LOCAL));
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

TEST(Exports, EveryFunctionUnderItsVersionAndNoOther) {
  const Library library = open_library(UROCE_LIBIBVERBS);
  ASSERT_NE(library, nullptr);
  for (const Symbol& symbol : kSymbols) {
    EXPECT_NE(dlvsym(library.get(), symbol.name, symbol.version), nullptr) << symbol.name << "@" << symbol.version;
    EXPECT_EQ(dlvsym(library.get(), symbol.name, "IBVERBS_1.18"), nullptr) << symbol.name;
  }
}

TEST(Exports, NothingElseLeaksOut) {
  const Library library = open_library(UROCE_LIBIBVERBS);
  ASSERT_NE(library, nullptr);
  // A C++ function that is certainly in it (proto::to_string).
  void* const leaked = dlsym(library.get(), "_ZN5uroce5proto9to_stringB5cxx11ERKNS0_3GidE");
  EXPECT_EQ(leaked, nullptr);
}

TEST(Exports, TheSystemsLibraryUsesTheSameVersions) {
  const Library system(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL));
  if (system == nullptr) GTEST_SKIP() << "no libibverbs.so.1 on this machine";
  for (const Symbol& symbol : kSymbols) {
    // Private versions differ from one release of rdma-core to the next.
    if (std::string(symbol.version).find("PRIVATE") != std::string::npos) continue;
    EXPECT_NE(dlvsym(system.get(), symbol.name, symbol.version), nullptr) << symbol.name << "@" << symbol.version;
  }
}

}  // namespace
}  // namespace uroce::ibv
