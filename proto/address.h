// SPDX-License-Identifier: Apache-2.0
// GIDs as people write them: "127.0.0.2" for IPv4 (the IPv4-mapped GID), "fd77::11" for IPv6.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/path.h"

namespace uroce::proto {

/// IPv4 dotted, or IPv6 as RFC 5952 wants it.
std::string to_string(const Gid& gid);

/// Accepts an IPv4 or IPv6 address ("::ffff:127.0.0.2" and "127.0.0.2" are the same GID), without scope, prefix length
/// or surrounding space; nothing when `text` is anything else.
std::optional<Gid> parse_gid(std::string_view text);

}  // namespace uroce::proto
