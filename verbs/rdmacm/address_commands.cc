// SPDX-License-Identifier: Apache-2.0
// Commands until there is a connection: ids, addresses, ports, routes, listeners.

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/bound_ports.h"
#include "verbs/rdmacm/call.h"
#include "verbs/rdmacm/faults.h"
#include "verbs/rdmacm/host.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

/// The QP type of an id in a port space; nothing when there is no such space.
std::optional<enum ibv_qp_type> qp_type_in(std::uint16_t space, std::uint8_t wanted) {
  switch (space) {
    case RDMA_PS_TCP:
      return IBV_QPT_RC;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      return IBV_QPT_UD;
    case RDMA_PS_IB:
      return static_cast<enum ibv_qp_type>(wanted);
    default:
      return std::nullopt;
  }
}

/// The address behind `size` bytes at `from`, of a command that has a sockaddr_storage there.
template <class Storage>
std::optional<SocketAddress> read_sized(const Storage& from, std::size_t size) {
  const auto address = read_address(&from, sizeof from);
  const std::size_t needed = !address ? 0 : address->family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return address && size == needed ? address : std::nullopt;
}

int bind(const Call& call, Id& id, const SocketAddress& address) {
  if (id.stage != Stage::kIdle || id.space == RDMA_PS_IPOIB) return EINVAL;
  Nic nic;
  if (!address.is_any()) {
    auto found = call.front.nics().with_address(address.address);
    if (found.ok()) nic = std::move(*found);
    // Any NIC of ours can be reached from this machine, whatever its loopback address is.
    if (!found.ok() && !address.is_loopback()) return found.error();
  }
  id.source.address = address;
  if (!id.options.family_chosen) {
    id.source.only_family = address.family == AF_INET || is_v6_only_by_default();
  }
  if (const int error = call.front.ports().bind(id.source)) {
    id.source.address = {};
    return error;
  }
  call.front.place(id, std::move(nic));
  id.stage = Stage::kBound;
  return 0;
}

int bind_explicitly(const Call& call, Id& id, const SocketAddress& address) {
  if (const int error = bind(call, id, address)) return error;
  // A program may tell others its port before it listens, as qperf does: what they send must find a NIC.
  if (!id.nic) static_cast<void>(call.front.nics().all());
  return 0;
}

int resolve(const Call& call, Id& id, const std::optional<SocketAddress>& source, const SocketAddress& destination) {
  if (id.stage == Stage::kIdle) {
    if (const int error = bind(call, id, source.value_or(any_address(destination.family)))) return error;
  }
  if (id.stage != Stage::kBound || id.source.address.family != destination.family) return EINVAL;
  id.destination = destination;
  if (const int error = faults::fails_to_resolve(faults::Kind::kAddressError)) {
    call.front.raise(id, EventType::kAddrError, -error);
    return 0;
  }
  if (id.nic && !destination.is_any()) {
    if (const int error = ibv::find_route(id.source.address.address, destination.address)) return error;
  } else if (!id.nic) {
    auto found = call.front.nics().towards(destination);
    if (!found.ok() && found.error() != ENODEV) return found.error();
    if (!found.ok()) {
      call.front.raise(id, EventType::kAddrError, -ENODEV);
      return 0;
    }
    call.front.place(id, std::move(*found));
    id.source.address.address = id.nic.adapter->gids()[id.nic.gid_index];
  }
  if (destination.is_any()) id.destination.address = id.source.address.address;  // Linux: cma_resolve_loopback().
  id.stage = Stage::kAddressResolved;
  call.front.raise(id, EventType::kAddrResolved, 0);
  return 0;
}

cm::Listen what_to_listen_for(const Id& id, std::uint32_t backlog) {
  const SocketAddress& address = id.source.address;
  cm::Listen out;
  out.service_id = service_id(id.space, address.port);
  out.transport = transport_of(id.qp_type);
  out.backlog = backlog;
  if (id.nic) {
    out.address = address.address;
  } else {
    out.takes_v6 = address.family == AF_INET6;
    out.takes_v4 = address.family == AF_INET || !id.source.only_family;
  }
  return out;
}

/// A loopback address counts as a wildcard, but what is sent there reaches the NIC that has it: one of another process.
bool would_hear_nothing(const Id& id) {
  const SocketAddress& address = id.source.address;
  return !id.nic && !address.is_any() &&
         ibv::is_bound_here(address.address, ibv::bound_udp_ports(proto::kRocePort)) == true;
}

/// Listens on one NIC or, bound to a wildcard, on all.
int start_listening(const Call& call, Id& id, std::uint32_t backlog) {
  std::vector<std::shared_ptr<ibv::Adapter>> adapters;
  if (id.nic) {
    adapters.push_back(id.nic.adapter);
  } else {
    auto all = call.front.nics().all();
    if (!all.ok()) return all.error();
    adapters = std::move(*all);
  }
  const cm::Listen wanted = what_to_listen_for(id, backlog);
  for (const auto& adapter : adapters) {
    {
      ibv::NicLock lock(*adapter);
      const auto listener = lock ? lock.cm().listen(wanted) : Result<cm::ListenerId, cm::Errno>(Err{ENODEV});
      if (!listener.ok()) return listener.error();
      id.listening.push_back({adapter, *listener});
      call.front.expect_requests(id, *adapter, *listener);
      lock.posted();  // Requests may have waited for it.
    }
    auto claims = adapter->claim_requests(wanted);
    if (!claims.ok()) return claims.error();
    id.listening.back().claims = std::move(*claims);
  }
  return 0;
}

}  // namespace

int create_id(const Call& call) {
  const auto in = call.read<rdma_ucm_create_id>();
  if (call.out_size < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const auto type = qp_type_in(in.ps, in.qp_type);
  if (!type) return EINVAL;
  if (in.response == 0) return EFAULT;
  Id& id = call.front.create(call.channel, in.ps, *type, in.uid);
  const int error = answer(in.response, rdma_ucm_create_id_resp{.id = id.number});
  if (error != 0) call.front.destroy(id, call.descriptor);
  return error;
}

int destroy_id(const Call& call) {
  const auto in = call.read<rdma_ucm_destroy_id>();
  if (call.out_size < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  const auto id = call.find(in.id);
  if (!id.ok()) return id.error();
  return answer(in.response, rdma_ucm_destroy_id_resp{call.front.destroy(**id, call.descriptor)});
}

int bind_ip(const Call& call) {
  const auto in = call.read<rdma_ucm_bind_ip>();
  const auto address = read_address(&in.addr, sizeof in.addr);
  if (!address) return EINVAL;
  const auto id = call.find(in.id);
  return id.ok() ? bind_explicitly(call, **id, *address) : id.error();
}

int bind_address(const Call& call) {
  const auto in = call.read<rdma_ucm_bind>();
  const auto address = read_sized(in.addr, in.addr_size);
  if (!address || in.reserved != 0) return EINVAL;
  const auto id = call.find(in.id);
  return id.ok() ? bind_explicitly(call, **id, *address) : id.error();
}

int resolve_ip(const Call& call) {
  const auto in = call.read<rdma_ucm_resolve_ip>();
  const auto source = read_address(&in.src_addr, sizeof in.src_addr);
  const auto destination = read_address(&in.dst_addr, sizeof in.dst_addr);
  if (!destination || (!source && in.src_addr.sin6_family != AF_UNSPEC)) return EINVAL;
  const auto id = call.find(in.id);
  return id.ok() ? resolve(call, **id, source, *destination) : id.error();
}

int resolve_address(const Call& call) {
  const auto in = call.read<rdma_ucm_resolve_addr>();
  const auto source = read_sized(in.src_addr, in.src_size);
  const auto destination = read_sized(in.dst_addr, in.dst_size);
  if (!destination || (!source && in.src_size != 0) || in.reserved != 0) return EINVAL;
  const auto id = call.find(in.id);
  return id.ok() ? resolve(call, **id, source, *destination) : id.error();
}

int resolve_route(const Call& call) {
  const auto in = call.read<rdma_ucm_resolve_route>();
  const auto id = call.find_with_nic(in.id);
  if (!id.ok()) return id.error();
  if ((*id)->stage != Stage::kAddressResolved || in.timeout_ms == 0) return EINVAL;
  if (const int error = faults::fails_to_resolve(faults::Kind::kRouteError)) {
    call.front.raise(**id, EventType::kRouteError, -error);
    return 0;
  }
  (*id)->path_mtu = path_mtu_towards(**id);
  (*id)->stage = Stage::kRouteResolved;
  call.front.raise(**id, EventType::kRouteResolved, 0);
  return 0;
}

int listen(const Call& call) {
  const auto in = call.read<rdma_ucm_listen>();
  const auto found = call.find(in.id);
  if (!found.ok()) return found.error();
  Id& id = **found;
  if (id.stage == Stage::kIdle) {
    if (const int error = bind(call, id, any_address(AF_INET))) return error;
  }
  if (id.stage != Stage::kBound) return EINVAL;
  if (would_hear_nothing(id)) return EADDRINUSE;
  if (const int error = call.front.ports().listen(id.source)) return error;
  const bool all = in.backlog == 0 || in.backlog > cm::Cm::kMaxBacklog;
  if (const int error = start_listening(call, id, all ? cm::Cm::kMaxBacklog : in.backlog)) {
    call.front.stop_listening(id, call.descriptor);
    return error;
  }
  id.stage = Stage::kListening;
  return 0;
}

}  // namespace uroce::rdmacm
