// Names of enumerators for people.
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
    "work request flushed",
    "memory window bind error",
    "bad response",
    "local access error",
    "remote invalid request",
    "remote access error",
    "remote operation error",
    "transport retries exceeded",
    "RNR retries exceeded",
    "local RDD violation",
    "remote invalid RD request",
    "remote aborted",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout",
    "general error",
    "tag matching error",
    "tag matching rendezvous incomplete",
};
static_assert(kStatuses.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

constexpr std::array kNodeTypes{
    kUnknown, "channel adapter", "switch", "router", "RDMA NIC", "usNIC", "usNIC over UDP", "unspecified",
};
static_assert(kNodeTypes.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kPortStates{
    "no state change", "down", "initialising", "armed", "active", "active, deferred",
};
static_assert(kPortStates.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array kEvents{
    "CQ error",
    "QP fatal error",
    "QP invalid request",
    "QP access error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration failed",
    "device fatal error",
    "port active",
    "port error",
    "LID changed",
    "P_Key table changed",
    "subnet manager changed",
    "SRQ error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration wanted",
    "GID table changed",
    "WQ fatal error",
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
