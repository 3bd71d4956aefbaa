// SPDX-License-Identifier: Apache-2.0
// What goes wrong with connections because UROCE_FAULTS asks for it (docs/faults.md): each function is asked once at
// the step that it is named after, and counts it.
#pragma once

#include <optional>

#include "engine/faults/spec.h"
#include "verbs/cm/cm.h"
#include "verbs/rdmacm/channel.h"

namespace uroce::rdmacm::faults {

using Kind = engine::faults::CmFault::Kind;

/// The errno value of the error with which resolving ends; 0: it does not. kAddressError or kRouteError.
int fails_to_resolve(Kind kind);

/// How a connection that the program asks for ends, without a packet.
struct End {
  EventType event;
  int status;
};
std::optional<End> end_of_connect();

/// Whether the request `id`, which has just come, has been rejected instead of told to the program.
bool rejects(cm::Cm& cm, cm::Id id);

/// `id` has been established: has it end, if it is to.
void limit_life(cm::Cm& cm, cm::Id id);

}  // namespace uroce::rdmacm::faults
