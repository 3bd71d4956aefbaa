// SPDX-License-Identifier: Apache-2.0
// What a program has made on a channel: ids, as the kernel's rdma_cm has them, and memberships in multicast groups.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <vector>

#include "verbs/cm/values.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/rdmacm/channel.h"
#include "verbs/rdmacm/ports.h"

namespace uroce::rdmacm {

/// A NIC of this process, and the place of one of its addresses in the GID table.
struct Nic {
  std::shared_ptr<ibv::Adapter> adapter;
  std::uint8_t gid_index = 0;
  explicit operator bool() const { return adapter != nullptr; }
};

/// How far an id has come, by the program's commands. How far its connection has come, the connection manager knows.
enum class Stage : std::uint8_t { kIdle, kBound, kAddressResolved, kRouteResolved, kConnecting, kListening };

/// RDMA_OPTION_ID_*; those of ports are in Binding.
struct Options {
  std::uint8_t tos = 0;
  std::optional<std::uint8_t> ack_timeout;
  bool family_chosen = false;  ///< RDMA_OPTION_ID_AFONLY was set; else it depends on the family.
};

struct Listening {
  std::shared_ptr<ibv::Adapter> adapter;
  cm::ListenerId listener = 0;
  std::vector<engine::Fd> claims{};  ///< Where processes share the address.
};

/// Made and destroyed by commands, under the front's command mutex; children also by events, under its event mutex.
struct Id {
  std::uint32_t number = 0;
  std::uint16_t space = 0;  ///< enum rdma_ucm_port_space.
  enum ibv_qp_type qp_type = IBV_QPT_RC;

  // Guarded by the command mutex.
  Stage stage = Stage::kIdle;
  Binding source;  ///< Our address and port.
  SocketAddress destination;
  /// None: not bound, or to a wildcard. Changes with the event mutex held too, so that one of both is enough to
  /// look.
  Nic nic;
  Options options;
  std::uint8_t path_mtu = 0;  ///< Of the route, once that is resolved (IBTA enum).
  std::vector<Listening> listening;
  cm::Id connection = 0;  ///< In the connection manager of `nic`; 0: none yet.

  // Guarded by the event mutex.
  std::uint64_t uid = 0;  ///< What the program calls it; 0: it does not know it yet, or it is being destroyed.
  std::shared_ptr<Channel> channel;
  std::uint32_t events_reported = 0;  ///< That the program has fetched.
  std::vector<Multicast*> groups;
};

struct Multicast {
  std::uint32_t number = 0;
  Id* id = nullptr;
  proto::Gid group;
  bool joined = false;  ///< The port has joined; else the address is no group, and nobody has to.
  std::uint64_t uid = 0;
  std::uint32_t events_reported = 0;  ///< Guarded by the event mutex.
};

inline bool is_datagram(const Id& id) { return id.qp_type == IBV_QPT_UD; }

}  // namespace uroce::rdmacm
