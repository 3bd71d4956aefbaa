// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/faults_wanted.h"

#include <mutex>
#include <optional>

#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/hooks/call_faults.h"
#include "verbs/ibverbs/hooks/cm_faults.h"

namespace uroce::ibv {
namespace {

struct Wanted {
  std::mutex mutex;
  std::optional<std::string> text;
};

Wanted& wanted() {
  static auto* const kWanted = new Wanted;  // Never destroyed, as NICs are not.
  return *kWanted;
}

}  // namespace

std::string faults_wanted() {
  const std::scoped_lock lock(wanted().mutex);
  return wanted().text.value_or(setting(Setting::kFaults));
}

void want_faults(const std::string& text, const engine::faults::FaultSpec& spec) {
  {
    const std::scoped_lock lock(wanted().mutex);
    wanted().text = text;
  }
  replace_call_faults(spec);
  replace_cm_faults(spec);
}

}  // namespace uroce::ibv
