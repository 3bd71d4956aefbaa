// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/settings.h"

#include <cstdlib>

namespace uroce::ibv {
namespace {

constexpr const char* kNames[] = {
#define UROCE_SETTING(id, name, option, value, fallback, meaning, more, check) name,
#include "verbs/ibverbs/catalogue/settings.def"
#undef UROCE_SETTING
};

}  // namespace

std::string setting(Setting which) {
  // A privileged program (setuid, or with file capabilities) does not do what the environment of its caller says.
  const char* const value = secure_getenv(kNames[static_cast<std::size_t>(which)]);
  return value == nullptr ? "" : value;
}

}  // namespace uroce::ibv
