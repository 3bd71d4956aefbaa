// SPDX-License-Identifier: Apache-2.0
// Programs find the emulated NICs when our libibverbs.so.1 is loaded before all other libraries.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

namespace uroce::tools {

/// The file of this program, without links; empty when it can't be found.
std::filesystem::path own_program();

/// Our libibverbs.so.1: beside this executable in ../lib/uroce, where it is installed, or in ../lib, where it is built.
std::string library_path();

/// What helps where the loader can't preload our library.
inline constexpr const char* kAnotherFolder = "build or install uroce in another folder";

struct Trouble {
  std::string what, remedy;
};
/// Why this user can't load the file `library`. Nothing when that is possible.
std::optional<Trouble> unreadable(const std::string& library);

/// Why the loader can't preload `library`: its path. Nothing when it can.
std::optional<std::string> refused_path(const std::string& library);

/// Sets the environment so that a program that is executed now loads that library first. Returns the reason as one
/// sentence when the library is not there, or the loader can't load it.
std::optional<std::string> preload_library();

/// The variables that preload_library() sets.
inline constexpr std::array kPreloadVariables{"LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS"};

}  // namespace uroce::tools
