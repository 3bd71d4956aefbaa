// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace uroce::engine {

/// Whether process `pid` is in the same namespace of this kind ("net", "time"; namespaces(7)) as we are. Nothing where
/// we may not know, or the kernel has no such namespaces.
std::optional<bool> shares_namespace(std::uint32_t pid, const char* kind);

}  // namespace uroce::engine
