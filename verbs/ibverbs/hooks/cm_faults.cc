// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/hooks/cm_faults.h"

#include <atomic>
#include <memory>
#include <vector>

#include "verbs/ibverbs/catalogue/settings.h"

namespace uroce::ibv {
namespace {

using engine::faults::CmFaults;
using engine::faults::FaultSpec;

struct CmLists {
  std::vector<std::unique_ptr<CmFaults>> all;
  std::atomic<CmFaults*> current = nullptr;

  void use(std::unique_ptr<CmFaults> faults) {
    current.store(faults.get(), std::memory_order_release);
    all.push_back(std::move(faults));
  }
};

CmLists& cm_lists() {
  static auto* const kLists = [] {
    auto* made = new CmLists;
    const auto spec = engine::faults::parse_faults(setting(Setting::kFaults));
    made->use(std::make_unique<CmFaults>(spec ? *spec : FaultSpec{}));  // A NIC that opens tells the error.
    return made;
  }();
  return *kLists;
}

}  // namespace

CmFaults& cm_faults() { return *cm_lists().current.load(std::memory_order_acquire); }

void replace_cm_faults(const FaultSpec& spec) {
  cm_lists().use(std::make_unique<CmFaults>(spec, cm_faults().injected()));
}

}  // namespace uroce::ibv
