// SPDX-License-Identifier: Apache-2.0
// What every packet of every service must have.
#pragma once

#include "proto/packet.h"

namespace uroce::simulator {

/// P_Key, reserved bits, pad, ICRC.
void check_frame(const proto::PacketView& view, const proto::Path& path);

}  // namespace uroce::simulator
