// SPDX-License-Identifier: Apache-2.0
// Descriptors, as the engine calls them.
#pragma once

#include "proto/base/fd.h"

namespace uroce::engine {
using uroce::Fd;
}  // namespace uroce::engine
