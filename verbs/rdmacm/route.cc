// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/route.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "proto/pkey.h"
#include "verbs/ibverbs/host/address.h"

namespace uroce::rdmacm {
namespace {

constexpr std::uint8_t kExactly = 2;  ///< IBTA: IB_SA_EQ, of the selectors.

/// The UDP source port of the QPs follows from it (Linux: rdma_get_udp_sport()).
std::uint32_t flow_label_of(const Id& id) {
  if (id.destination.family == AF_INET6 && id.destination.flowinfo != 0) return id.destination.flowinfo & 0xF'FFFF;
  return cm::flow_label_between(id.source.address.port, id.destination.port);
}

}  // namespace

cm::Transport transport_of(enum ibv_qp_type type) {
  if (type == IBV_QPT_UD) return cm::Transport::kUd;
  return type == IBV_QPT_UC ? cm::Transport::kUc : cm::Transport::kRc;
}

std::uint8_t path_mtu_towards(const Id& id) {
  const std::uint8_t own = id.nic.adapter->mtu_max();
  const proto::Gid& peer = id.destination.address;
  const auto interface = peer.is_loopback() ? std::nullopt : ibv::interface_name(peer);
  const auto mtu = interface ? ibv::interface_mtu(*interface) : std::nullopt;
  return mtu ? std::min(own, ibv::path_mtu_for(*mtu)) : own;
}

cm::PathInfo path_of(const Id& id) {
  cm::PathInfo path;
  path.flow_label = flow_label_of(id);
  path.tclass = id.options.tos;
  path.mtu = id.path_mtu != 0 ? id.path_mtu : id.nic.adapter->mtu_max();  // 0: the passive side.
  if (const auto timeout = id.options.ack_timeout; timeout && *timeout != 0) {
    path.life_time = static_cast<std::uint8_t>(*timeout - 1);
  }
  return path;
}

ib_user_path_rec path_record(const Id& id, const cm::PathInfo& path) {
  ib_user_path_rec out{};
  const auto& source = id.nic.adapter->gids()[id.nic.gid_index];
  std::copy(source.raw.begin(), source.raw.end(), out.sgid);
  std::copy(id.destination.address.raw.begin(), id.destination.address.raw.end(), out.dgid);
  out.flow_label = htonl(path.flow_label);
  out.reversible = 1;
  out.mtu = path.mtu;
  out.pkey = proto::kDefaultPkey;
  out.hop_limit = path.hop_limit;
  out.traffic_class = path.tclass;
  out.mtu_selector = out.rate_selector = out.packet_life_time_selector = kExactly;
  out.packet_life_time = path.life_time;
  return out;
}

}  // namespace uroce::rdmacm
