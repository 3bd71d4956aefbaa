#include "verbs/ibverbs/hooks/cm_faults.h"

#include "verbs/ibverbs/catalogue/settings.h"

namespace uroce::ibv {

engine::faults::CmFaults& cm_faults() {
  static auto* const kFaults = [] {
    const auto spec = engine::faults::parse_faults(setting(Setting::kFaults));
    return new engine::faults::CmFaults(spec ? *spec
                                             : engine::faults::FaultSpec{});  // A NIC that opens tells the error.
  }();
  return *kFaults;
}

}  // namespace uroce::ibv
