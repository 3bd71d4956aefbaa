// SPDX-License-Identifier: Apache-2.0
// QUERY_ROUTE.
#include <cstddef>

#include "verbs/rdmacm/call.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

__u64 guid_of(const Nic& nic) {
  __u64 guid = 0;
  std::memcpy(&guid, nic.adapter->guid().data(), sizeof guid);
  return guid;
}

/// The path of an id that has one. On the passive side that is what the request said.
std::optional<cm::PathInfo> known_path(const Id& id) {
  if (!id.nic || (id.stage != Stage::kRouteResolved && id.stage != Stage::kConnecting)) return std::nullopt;
  if (id.connection != 0) {
    const ibv::NicLock lock(*id.nic.adapter);
    const auto info = lock ? lock.cm().query(id.connection) : std::nullopt;
    if (info) return info->path;
  }
  return path_of(id);
}

/// The kernel keeps the family of the source there as soon as there is one.
SocketAddress destination_of(const Id& id) {
  return id.destination.family != AF_UNSPEC ? id.destination : any_address(id.source.address.family);
}

/// Without a route: the two GIDs and the P_Key.
ib_user_path_rec addresses_of(const Id& id) {
  const ib_user_path_rec full = path_record(id, {});
  const proto::Gid destination = destination_of(id).address;
  ib_user_path_rec out{};
  std::memcpy(out.sgid, full.sgid, sizeof out.sgid);
  std::memcpy(out.dgid, destination.raw.data(), sizeof out.dgid);
  out.pkey = full.pkey;
  return out;
}

}  // namespace

int query_route(const Call& call) {
  const auto in = call.read<rdma_ucm_query>();
  // Older libraries know nothing of what comes behind.
  if (call.out_size < offsetof(rdma_ucm_query_route_resp, ibdev_index)) return ENOSPC;
  const auto found = call.find(in.id);
  if (!found.ok()) return found.error();
  const Id& id = **found;
  rdma_ucm_query_route_resp out{};
  write_address(id.source.address, &out.src_addr);
  write_address(destination_of(id), &out.dst_addr);
  if (id.nic) {
    out.node_guid = guid_of(id.nic);
    out.port_num = kPort;
    out.ibdev_index = id.nic.adapter->index();
    const auto path = known_path(id);
    out.num_paths = path ? 1 : 0;
    out.ib_route[0] = path ? path_record(id, *path) : addresses_of(id);
  }
  return answer(in.response, &out, std::min(call.out_size, sizeof out));
}

// Libraries use it when they have been told that there are AF_IB addresses, and bind_address() says that there are not.
int query(const Call&) { return EOPNOTSUPP; }

}  // namespace uroce::rdmacm
