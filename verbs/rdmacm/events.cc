// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/events.h"

#include <algorithm>
#include <cstring>

#include "verbs/nic/model/types.h"
#include "verbs/rdmacm/route.h"

namespace uroce::rdmacm {
namespace {

constexpr std::uint8_t kHopLimit = 64;

/// Always the whole field, however little was sent: that is what programs of the kernel get.
template <std::size_t N>
void copy_private_data(const cm::PrivateData& from, std::uint8_t (&to)[N], std::uint8_t& size) {
  std::copy_n(from.bytes.begin(), from.size, to);
  size = from.size;
}

void fill_connection(const cm::Event& event, rdma_ucm_event_resp& out) {
  rdma_ucm_conn_param& to = out.param.conn;
  copy_private_data(event.private_data, to.private_data, to.private_data_len);
  to.qp_num = event.params.qpn;
  to.srq = event.params.srq;
  to.responder_resources = event.params.responder_resources;
  to.initiator_depth = event.params.initiator_depth;
  to.flow_control = event.params.flow_control;
  to.retry_count = event.params.retry_count;
  to.rnr_retry_count = event.params.rnr_retry_count;
  out.ece = {.vendor_id = event.params.ece.vendor_id, .attr_mod = event.params.ece.attr_mod};
}

void fill_datagram(const Id& id, const cm::Event& event, const cm::PathInfo& path, rdma_ucm_event_resp& out) {
  rdma_ucm_ud_param& to = out.param.ud;
  copy_private_data(event.private_data, to.private_data, to.private_data_len);
  if (event.kind != cm::Event::Kind::kEstablished) return;
  to.qp_num = event.datagram.qpn;
  to.qkey = event.datagram.qkey;
  to.ah_attr = address_vector(id.destination.address, id.nic.gid_index, path.tclass, path.flow_label);
}

}  // namespace

rdma_ucm_event_resp plain_event(const Id& id, EventType event, int status) {
  rdma_ucm_event_resp out{};
  out.uid = id.uid;
  out.id = id.number;
  out.event = static_cast<__u32>(event);
  out.status = static_cast<std::uint32_t>(status);
  return out;
}

rdma_ucm_event_resp connection_event(const Id& id, const cm::Event& event, const cm::PathInfo& path) {
  rdma_ucm_event_resp out = plain_event(id, static_cast<EventType>(event.kind), event.status);
  is_datagram(id) ? fill_datagram(id, event, path, out) : fill_connection(event, out);
  return out;
}

rdma_ucm_event_resp join_event(const Multicast& multicast) {
  rdma_ucm_event_resp out{};
  out.uid = multicast.uid;
  out.id = multicast.number;
  out.event = static_cast<__u32>(EventType::kMulticastJoin);
  out.param.ud.qp_num = nic::kMulticastQpn;
  out.param.ud.qkey = kUdpQkey;
  out.param.ud.ah_attr =
      address_vector(multicast.group, multicast.id->nic.gid_index, multicast.id->options.tos, /*flow_label=*/0);
  return out;
}

ib_uverbs_ah_attr address_vector(const proto::Gid& destination, std::uint8_t gid_index, std::uint8_t tclass,
                                 std::uint32_t flow_label) {
  ib_uverbs_ah_attr out{};
  std::copy(destination.raw.begin(), destination.raw.end(), out.grh.dgid);
  out.grh.flow_label = flow_label;
  out.grh.sgid_index = gid_index;
  out.grh.hop_limit = kHopLimit;
  out.grh.traffic_class = tclass;
  out.is_global = 1;
  out.port_num = kPort;
  return out;
}

}  // namespace uroce::rdmacm
