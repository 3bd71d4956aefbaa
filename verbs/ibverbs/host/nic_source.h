// SPDX-License-Identifier: Apache-2.0
// The devices of this process, as verbs/view wants to know them.
#pragma once

#include "verbs/view/nic_view.h"

namespace uroce::ibv {

/// Never destroyed. None when the environment makes no sense.
const view::NicSource& nic_source();

}  // namespace uroce::ibv
