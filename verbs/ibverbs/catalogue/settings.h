// SPDX-License-Identifier: Apache-2.0
// The settings: environment variables that shape the emulated NICs and their tools. settings.def describes them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace uroce::ibv {

enum class Setting : std::uint8_t {
#define UROCE_SETTING(id, name, option, value, fallback, meaning, more, check) id,
#include "verbs/ibverbs/catalogue/settings.def"
#undef UROCE_SETTING
  kCount
};

/// A row of settings.def.
struct SettingFacts {
  const char* name;
  std::string_view option, value, fallback, meaning, more;
  /// What is wrong with a value, as a sentence that names the variable; "" when nothing is. An empty value is like
  /// none. Settings that depend on each other look at the environment for the other one.
  std::string (*check)(const std::string& value);
};
using SettingTable = std::array<SettingFacts, static_cast<std::size_t>(Setting::kCount)>;

/// All settings, in the order of `Setting` (host/setting_checks.cc, since it knows what values mean).
const SettingTable& settings();

/// The value in the environment, "" when the variable is not set, or the program has more rights than its caller. Of a
/// program that has cleared its environment: what it was when the library was preloaded.
std::string setting(Setting which);

}  // namespace uroce::ibv
