// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/faults_wanted.h"

#include <mutex>
#include <optional>

#include "engine/os/process_mutex.h"
#include "proto/base/made_once.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/hooks/call_faults.h"
#include "verbs/ibverbs/hooks/cm_faults.h"

namespace uroce::ibv {
namespace {

/// Guarded by engine::process_mutex.
std::optional<std::string>& wanted() {
  static constinit std::atomic<std::optional<std::string>*> text = nullptr;
  return made_once(text);
}

}  // namespace

std::string faults_wanted() {
  const std::scoped_lock lock(engine::process_mutex);
  return wanted().value_or(setting(Setting::kFaults));
}

void want_faults(const std::string& text, const engine::faults::FaultSpec& spec) {
  {
    const std::scoped_lock lock(engine::process_mutex);
    wanted() = text;
  }
  replace_call_faults(spec);
  replace_cm_faults(spec);
}

}  // namespace uroce::ibv
