// SPDX-License-Identifier: Apache-2.0
// Who has the abstract name of a SOCK_SEQPACKET socket, as all of ours are (each type has names of its own). Anybody
// may take any of them, and need not listen there.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "engine/os/abstract_name.h"

namespace uroce::engine {

/// The user of a socket that is bound to `name`. Nothing when there is none, or the kernel does not tell: before Linux
/// 5.3, in a sandbox, or for want of a number in this user namespace.
std::optional<uid_t> holder_of(const AbstractName& name);

/// For people: who has `name`, which we would take.
std::string held_by_others(const AbstractName& name);

}  // namespace uroce::engine
