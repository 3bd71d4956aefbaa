// SPDX-License-Identifier: Apache-2.0
// What the fields of headers are for, in a line each.
#pragma once

#include <string_view>

#include "proto/headers.h"

namespace uroce::explain {

/// Empty when there is nothing to say.
std::string_view meaning(proto::HeaderId header, std::string_view field);

}  // namespace uroce::explain
