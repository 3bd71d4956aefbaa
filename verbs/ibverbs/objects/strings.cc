// SPDX-License-Identifier: Apache-2.0
// Names of enumerators, as libibverbs has them: people search for them, and scripts look for them in what programs
// print.
#include <array>
#include <cstddef>

#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"

namespace uroce::ibv {
namespace {

constexpr const char* kUnknown = "unknown";

template <std::size_t N>
const char* look_up(const std::array<const char*, N>& names, int value) {
  if (value < 0 || static_cast<std::size_t>(value) >= N) return kUnknown;
  return names[static_cast<std::size_t>(value)];
}

constexpr std::array kStatuses{
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};
static_assert(kStatuses.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

constexpr std::array kNodeTypes{
    kUnknown,
    "InfiniBand channel adapter",
    "InfiniBand switch",
    "InfiniBand router",
    "iWARP NIC",
    "usNIC",
    "usNIC UDP",
    "unspecified",
};
static_assert(kNodeTypes.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kPortStates{
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};
static_assert(kPortStates.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array kEvents{
    "CQ error",
    "local work queue catastrophic error",
    "invalid request local work queue error",
    "local access violation work queue error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration request error",
    "local catastrophic error",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ catastrophic error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID table change",
    "WQ fatal",
};
static_assert(kEvents.size() == IBV_EVENT_WQ_FATAL + 1);

}  // namespace

namespace impl {

const char* ibv_wc_status_str(enum ibv_wc_status status) { return look_up(kStatuses, raw(status)); }
const char* ibv_node_type_str(enum ibv_node_type type) { return look_up(kNodeTypes, raw(type)); }
const char* ibv_port_state_str(enum ibv_port_state state) { return look_up(kPortStates, raw(state)); }
const char* ibv_event_type_str(enum ibv_event_type event) { return look_up(kEvents, raw(event)); }

}  // namespace impl
}  // namespace uroce::ibv
