// SPDX-License-Identifier: Apache-2.0
// UDP source port of a flow: entropy for switches that hash the five-tuple. The rule is libibverbs'
// (ibv_flow_label_to_udp_sport); it is symmetric in the two QPNs, so both directions of a connection use one port.
#pragma once

#include <cstdint>

namespace uroce::proto {

/// Port 0xC000..0xFFFF of an RC or UC flow. `flow_label`: the low 20 bits count; 0 derives one from the QP numbers.
constexpr std::uint16_t flow_source_port(std::uint32_t flow_label, std::uint32_t local_qpn, std::uint32_t remote_qpn) {
  std::uint32_t label = flow_label & 0xFFFFF;
  if (label == 0) {
    std::uint64_t v = std::uint64_t{local_qpn} * remote_qpn;
    v ^= v >> 20;
    v ^= v >> 40;
    label = static_cast<std::uint32_t>(v & 0xFFFFF);
  }
  return static_cast<std::uint16_t>(0xC000 | ((label & 0x3FFF) ^ (label >> 14)));
}

static_assert(flow_source_port(0, 17, 18) == flow_source_port(0, 18, 17));
static_assert(flow_source_port(0xFFFFF, 1, 2) == (0xC000 | (0x3FFF ^ 0x3F)));

}  // namespace uroce::proto
