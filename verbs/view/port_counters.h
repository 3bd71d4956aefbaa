// SPDX-License-Identifier: Apache-2.0
// The counters of a port under the names that tools look for: those of rxe and mlx5 in ports/1/hw_counters, those of
// the InfiniBand specification (PortCounters, IBTA Vol 1, 16.1.3.5) in ports/1/counters.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "verbs/view/nic_view.h"

namespace uroce::view {

/// How old the values may be, at most: a file beside them says so.
inline constexpr std::chrono::milliseconds kCounterLifespan{10};

struct CounterRow {
  const char* name;
  std::uint64_t (*value)(const NicView& nic);
};

std::span<const CounterRow> hw_counters();
std::span<const CounterRow> port_counters();

}  // namespace uroce::view
