// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/cm_faults.h"

#include <memory>

#include "proto/base/made_once.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/hooks/replaceable.h"

namespace uroce::ibv {
namespace {

using engine::faults::CmFaults;
using engine::faults::FaultSpec;

Replaceable<CmFaults>& faults() {
  static constinit std::atomic<Replaceable<CmFaults>*> made = nullptr;
  return made_once(made, [] {
    const auto spec = engine::faults::parse_faults(setting(Setting::kFaults));
    // A NIC that opens tells the error.
    return std::make_unique<Replaceable<CmFaults>>(std::make_unique<CmFaults>(spec ? *spec : FaultSpec{}));
  });
}

}  // namespace

CmFaults& cm_faults() { return faults().now(); }

void replace_cm_faults(const FaultSpec& spec) {
  faults().replace(std::make_unique<CmFaults>(spec, cm_faults().injected()));
}

void add_cm_faults(const FaultSpec& more) {
  if (!more.connections.empty()) faults().replace(std::make_unique<CmFaults>(cm_faults(), more));
}

}  // namespace uroce::ibv
