// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/settings.h"

#include <algorithm>
#include <cstdlib>

namespace uroce::ibv {
namespace {

constexpr std::array kNames{
#define UROCE_SETTING(id, name, option, value, fallback, meaning, more, check) name,
#include "verbs/ibverbs/catalogue/settings.def"
#undef UROCE_SETTING
};

// A privileged program (setuid, or with file capabilities) does not do what the environment of its caller says.
std::string variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

/// The settings with which the library was preloaded. Daemons clear their environment before they open a device.
struct AtLoad {
  bool is_preloaded = !variable("LD_PRELOAD").empty();
  std::array<std::string, kNames.size()> values;

  AtLoad() { std::transform(kNames.begin(), kNames.end(), values.begin(), variable); }
  /// Nothing is left of what `uroce run` has set.
  bool was_cleared() const {
    return is_preloaded && secure_getenv("LD_PRELOAD") == nullptr &&
           std::none_of(kNames.begin(), kNames.end(), [](const char* name) { return secure_getenv(name) != nullptr; });
  }
};

/// Never destroyed: a device may be opened by what the program does last.
const AtLoad& at_load() {
  static const AtLoad* const first = new AtLoad;
  return *first;
}
[[maybe_unused]] const AtLoad& kAtLoad = at_load();

}  // namespace

std::string setting(Setting which) {
  const auto index = static_cast<std::size_t>(which);
  return at_load().was_cleared() ? at_load().values[index] : variable(kNames[index]);
}

}  // namespace uroce::ibv
