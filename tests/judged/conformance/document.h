// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace uroce::conformance {

/// docs/conformance.md, from the table.
std::string document();

}  // namespace uroce::conformance
