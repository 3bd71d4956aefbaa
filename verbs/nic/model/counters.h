// SPDX-License-Identifier: Apache-2.0
// What the NIC counts. events.def has the list.
#pragma once

#include <cstdint>

namespace uroce::nic {

struct Counters {
#define UROCE_COUNTER(name, also, meaning) std::uint64_t name = 0;
#include "verbs/nic/model/events.def"
};

}  // namespace uroce::nic
