// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/faults.h"

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/hooks/cm_faults.h"

namespace uroce::rdmacm::faults {

int fails_to_resolve(Kind kind) {
  const auto* const fault = ibv::cm_faults().strike(kind);
  return fault != nullptr ? fault->value : 0;
}

std::optional<End> end_of_connect() {
  const auto* const rejected = ibv::cm_faults().strike(Kind::kRejected);
  const auto* const unreachable = ibv::cm_faults().strike(Kind::kUnreachable);
  if (rejected != nullptr) return End{EventType::kRejected, rejected->value};
  if (unreachable != nullptr) return End{EventType::kUnreachable, -unreachable->value};
  return std::nullopt;
}

bool rejects(cm::Cm& cm, cm::Id id) {
  const auto* const fault = ibv::cm_faults().strike(Kind::kReject);
  if (fault == nullptr) return false;
  const Instant now = engine::os_now();
  if (cm.reject(id, static_cast<cm::RejectReason>(fault->value), {}, now) != 0) {
    cm.sidr_reply(id, {.status = cm::SidrStatus::kReject}, now);
  }
  cm.destroy(id, now);
  return true;
}

void limit_life(cm::Cm& cm, cm::Id id) {
  const auto* const fault = ibv::cm_faults().strike(Kind::kDisconnect);
  if (fault != nullptr) cm.disconnect_at(id, engine::os_now() + fault->after);
}

}  // namespace uroce::rdmacm::faults
