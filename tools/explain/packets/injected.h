// SPDX-License-Identifier: Apache-2.0
// What the faults of a NIC of ours have done to a packet, as the NIC says in the packet's comment:
// "uroce: corrupted by corrupt=1%, delayed by delay=2ms, 2003 us late; NIC: sent again because of ...".
#pragma once

#include <cstdint>
#include <string_view>

namespace uroce::explain {

/// What a fault did, and which one: "dropped by loss=1%" for `did` "dropped". Empty when nothing did that.
std::string_view injected(std::string_view comment, std::string_view did);

/// Whether the comment is that of the packet's receiver: faults that are played on receipt are called "rx.".
bool is_of_receiver(std::string_view comment);

/// What held a packet back, and which fault: "held back by reorder=2%:3", "delayed by delay=2ms"; empty: none.
std::string_view holding_fault(std::string_view comment);

/// By how much a packet came late that was held back before it was sent; 0 when the comment does not tell.
std::int64_t late_ns(std::string_view comment);

/// For how long a packet's receiver holds it back before it takes it.
struct Holding {
  std::int64_t least_ns = 0, most_ns = 0;
};
/// As the fault itself says: the comment is written before it is known.
Holding holding(std::string_view comment);

}  // namespace uroce::explain
