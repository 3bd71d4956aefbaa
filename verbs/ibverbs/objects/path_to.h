// SPDX-License-Identifier: Apache-2.0
// From address vectors to paths.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "proto/base/result.h"
#include "proto/path.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {

/// Where an address vector may point to.
enum class Reach : std::uint8_t { kUnicast, kAny };

/// The path to where `ah` points, all but its source port. EINVAL: not a RoCE address, or one that our GID cannot
/// reach; ENODATA: no such GID of ours; ETIMEDOUT: no route, or a link-local GID that is no NIC's.
Result<proto::Path, int> path_to(const Adapter& adapter, const struct ibv_ah_attr& ah, Reach reach);

/// Acquires and gives back the source port of a path. EMFILE, ENFILE: there is no descriptor for its socket.
Result<HeldSourcePort, int> hold(const NicLock& lock, proto::Path& path, std::uint16_t wanted);
void release(const NicLock& lock, std::optional<HeldSourcePort>& held);

}  // namespace uroce::ibv
