// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/cm_faults.h"

#include <memory>

#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/hooks/replaceable.h"

namespace uroce::ibv {
namespace {

using engine::faults::CmFaults;
using engine::faults::FaultSpec;

Replaceable<CmFaults>& faults() {
  static auto* const kFaults = [] {
    const auto spec = engine::faults::parse_faults(setting(Setting::kFaults));
    return new Replaceable(
        std::make_unique<CmFaults>(spec ? *spec : FaultSpec{}));  // A NIC that opens tells the error.
  }();
  return *kFaults;
}

}  // namespace

CmFaults& cm_faults() { return faults().now(); }

void replace_cm_faults(const FaultSpec& spec) {
  faults().replace(std::make_unique<CmFaults>(spec, cm_faults().injected()));
}

void add_cm_faults(const FaultSpec& more) { faults().replace(std::make_unique<CmFaults>(cm_faults(), more)); }

}  // namespace uroce::ibv
