// SPDX-License-Identifier: Apache-2.0
// libibverbs.so.1 as an unmodified program sees it: the dynamic symbols with their versions.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <infiniband/sa.h>
#include <link.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "verbs/ibverbs/catalogue/verbs_table.h"

namespace uroce::ibv {
namespace {

struct Symbol {
  const char* name;
  const char* version;
};
constexpr Symbol kSymbols[] = {
#define UROCE_VERB(ret, name, params, args, version) {#name, version},
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#undef UROCE_VERB
};
constexpr Symbol kNewerSymbols[] = {
#define UROCE_VERB(ret, name, params, args, version) {#name, version},
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
};

constexpr const char* kPrivateNames[] = {
#define UROCE_PRIVATE(name) #name,
#define UROCE_PRIVATE_NULL(name) #name,
#define UROCE_PRIVATE_FLAG(name) #name,
#include "verbs/ibverbs/catalogue/private_symbols.def"
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

/// It is loaded into each program below `uroce run`; libpcap, which reads captures, would bring D-Bus and its like
/// along.
TEST(Exports, DoesNotLoadWhatReadsCaptures) {
  const Library library = open_library(UROCE_LIBIBVERBS);
  ASSERT_NE(library, nullptr);
  for (const char* other : {"libpcap.so.0.8", "libdbus-1.so.3"}) {
    EXPECT_EQ(Library(dlopen(other, RTLD_NOLOAD | RTLD_LAZY)), nullptr) << other;
  }
}

TEST(Exports, EveryFunctionUnderItsVersionAndNoOther) {
  const Library library = open_library(UROCE_LIBIBVERBS);
  ASSERT_NE(library, nullptr);
  for (const Symbol& symbol : kSymbols) {
    EXPECT_NE(dlvsym(library.get(), symbol.name, symbol.version), nullptr) << symbol.name << "@" << symbol.version;
    EXPECT_EQ(dlvsym(library.get(), symbol.name, "IBVERBS_1.18"), nullptr) << symbol.name;
  }
  for (const Symbol& symbol : kNewerSymbols) {
    EXPECT_NE(dlvsym(library.get(), symbol.name, symbol.version), nullptr) << symbol.name << "@" << symbol.version;
    EXPECT_EQ(dlvsym(library.get(), symbol.name, "IBVERBS_1.1"), nullptr) << symbol.name;
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
  const Library system = open_library(UROCE_SYSTEM_LIBIBVERBS);
  ASSERT_NE(system, nullptr);
  for (const Symbol& symbol : kSymbols) {
    // Private versions differ from one release of rdma-core to the next.
    if (std::string(symbol.version).find("PRIVATE") != std::string::npos) continue;
    EXPECT_NE(dlvsym(system.get(), symbol.name, symbol.version), nullptr) << symbol.name << "@" << symbol.version;
  }
}

/// "function", or how many bytes of data; "" when there is no such symbol.
std::string kind_of(const Library& library, const char* name, const char* version) {
  void* const at = dlvsym(library.get(), name, version);
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (at == nullptr) return "";
  if (dladdr1(at, &info, const_cast<void**>(reinterpret_cast<const void**>(&symbol)), RTLD_DL_SYMENT) == 0 || !symbol) {
    return "unknown";
  }
  if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) return "function";
#ifdef __SANITIZE_ADDRESS__
  return "data";  // What is behind ours, so that nobody writes there, counts as a part of it.
#else
  return std::to_string(symbol->st_size) + " bytes";
#endif
}

// A library that is bound to ours instead of the system's calls functions, and writes to data.
TEST(Exports, AreFunctionsOrDataAsTheSystems) {
  const Library ours = open_library(UROCE_LIBIBVERBS);
  const Library system = open_library(UROCE_SYSTEM_LIBIBVERBS);
  ASSERT_NE(system, nullptr);
  std::size_t compared = 0;
  const auto compare = [&](const char* name, const char* version) {
    const std::string wanted = kind_of(system, name, version), kind = kind_of(ours, name, version);
    if (wanted.empty() || kind.empty()) return;  // One of them has another version.
    EXPECT_EQ(kind, wanted) << name << "@" << version;
    ++compared;
  };
  for (const Symbol& symbol : kSymbols) compare(symbol.name, symbol.version);
  for (const Symbol& symbol : kNewerSymbols) compare(symbol.name, symbol.version);
  const std::size_t known = compared;
  for (const char* const name : kPrivateNames) {
    for (const char* const node : {"25", "33", "34", "57", "59", "64", "65"}) {
      compare(name, (std::string("IBVERBS_PRIVATE_") + node).c_str());
    }
  }
  EXPECT_GT(known, 50u);
  EXPECT_GT(compared, known + 50);
}

TEST(Exports, SaysOnStderrWhichSettingMakesNoSense) {
  // A program on plain verbs learns no more than that there is no device.
  const Library library = open_library(UROCE_LIBIBVERBS);
  ASSERT_NE(library, nullptr);
  ASSERT_EQ(setenv("UROCE_FAULTS", "los=1%", 1), 0);
  auto* const list = reinterpret_cast<struct ibv_device** (*)(int*)>(dlsym(library.get(), "ibv_get_device_list"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(list(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(testing::internal::GetCapturedStderr().rfind("uroce: UROCE_FAULTS: 'los=1%': there is no such fault", 0),
            0u);
  unsetenv("UROCE_FAULTS");
}

/// The same function of our library and of the system's.
template <class F>
struct Both {
  Both(const Library& ours_library, const Library& system_library, const char* name)
      : ours(reinterpret_cast<F*>(dlsym(ours_library.get(), name))),
        system(reinterpret_cast<F*>(dlsym(system_library.get(), name))) {}
  F *ours, *system;
};

TEST(Exports, RatesAreTheSystems) {
  const Library ours = open_library(UROCE_LIBIBVERBS);
  const Library system = open_library(UROCE_SYSTEM_LIBIBVERBS);
  ASSERT_NE(system, nullptr);
  const Both<int(int)> to_mult(ours, system, "ibv_rate_to_mult"), to_mbps(ours, system, "ibv_rate_to_mbps"),
      from_mult(ours, system, "mult_to_ibv_rate"), from_mbps(ours, system, "mbps_to_ibv_rate");
  for (int rate = -1; rate <= IBV_RATE_1200_GBPS; ++rate) {
    EXPECT_EQ(to_mult.ours(rate), to_mult.system(rate)) << rate;
    EXPECT_EQ(to_mbps.ours(rate), to_mbps.system(rate)) << rate;
    const int mbps = to_mbps.system(rate);
    EXPECT_EQ(from_mbps.ours(mbps), from_mbps.system(mbps)) << mbps;
  }
  for (int mult = -1; mult <= 500; ++mult) EXPECT_EQ(from_mult.ours(mult), from_mult.system(mult)) << mult;
}

TEST(Exports, WordsAreTheSystems) {
  const Library ours = open_library(UROCE_LIBIBVERBS);
  const Library system = open_library(UROCE_SYSTEM_LIBIBVERBS);
  ASSERT_NE(system, nullptr);
  for (const char* name : {"ibv_wc_status_str", "ibv_event_type_str", "ibv_port_state_str", "ibv_node_type_str"}) {
    const Both<const char*(int)> words(ours, system, name);
    for (int value = -1; value < 32; ++value) EXPECT_STREQ(words.ours(value), words.system(value)) << name << value;
  }
}

/// Converts a struct in which every byte differs with both libraries; the results must not.
template <class To, class From>
void expect_same_conversion(const Library& ours, const Library& system, const char* name) {
  const Both<void(To*, From*)> convert(ours, system, name);
  From from;
  for (std::size_t i = 0; i < sizeof from; ++i) {
    reinterpret_cast<unsigned char*>(&from)[i] = static_cast<unsigned char>(i * 7 + 1);
  }
  To to[2];
  std::memset(static_cast<void*>(to), 0, sizeof to);
  convert.ours(&to[0], &from);
  convert.system(&to[1], &from);
  EXPECT_EQ(std::memcmp(&to[0], &to[1], sizeof(To)), 0) << name;  // NOLINT: the padding too.
}

TEST(Exports, KernelStructsAreConvertedAsTheSystemDoes) {
  const Library ours = open_library(UROCE_LIBIBVERBS);
  const Library system = open_library(UROCE_SYSTEM_LIBIBVERBS);
  ASSERT_NE(system, nullptr);
  expect_same_conversion<ibv_ah_attr, ib_uverbs_ah_attr>(ours, system, "ibv_copy_ah_attr_from_kern");
  expect_same_conversion<ibv_qp_attr, ib_uverbs_qp_attr>(ours, system, "ibv_copy_qp_attr_from_kern");
  expect_same_conversion<ibv_sa_path_rec, ib_user_path_rec>(ours, system, "ibv_copy_path_rec_from_kern");
  expect_same_conversion<ib_user_path_rec, ibv_sa_path_rec>(ours, system, "ibv_copy_path_rec_to_kern");
}

}  // namespace
}  // namespace uroce::ibv
