// SPDX-License-Identifier: Apache-2.0
// The devices of this process, as verbs/view wants to know them.
#pragma once

#include "verbs/view/nic_view.h"

namespace uroce::ibv {

/// Never destroyed. None when the environment makes no sense.
const view::NicSource& nic_source();
/// Whether this thread is in the middle of something on a device, a recording perhaps: what it asks for then are real
/// files, and nic_source() would wait for itself.
bool is_inside_device();

}  // namespace uroce::ibv
