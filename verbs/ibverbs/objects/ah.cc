// SPDX-License-Identifier: Apache-2.0
// Address handles.
#include <algorithm>
#include <cstring>

#include "proto/entropy.h"
#include "proto/frame.h"
#include "proto/headers.h"
#include "proto/ip_udp.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/ibverbs/objects/path_to.h"

namespace uroce::ibv {
namespace {

/// The entropy of a datagram's path. Both QP numbers count for other services; a handle knows neither, so the addresses
/// have to do.
std::uint16_t wanted_source_port(const struct ibv_ah_attr& attr, const proto::Path& path) {
  const auto last = [](const proto::Gid& gid) { return static_cast<std::uint32_t>(load_be<4>(gid.raw.data() + 12)); };
  return proto::flow_source_port(attr.grh.flow_label, last(path.source), last(path.destination));
}

/// The addresses of a packet that has come, as the GRH area of its receive has them.
struct Came {
  proto::Gid from, to;
  std::uint8_t tclass = 0, hop_limit = 0;
  std::uint32_t flow_label = 0;
};

proto::Gid gid_from(const std::uint8_t* raw) {
  proto::Gid gid;
  std::memcpy(gid.raw.data(), raw, gid.raw.size());
  return gid;
}

/// Whether the last 20 bytes of a GRH area are an IPv4 header.
bool is_ipv4(const std::uint8_t* header) {
  const proto::ConstView<proto::Ipv4> v4{header};
  constexpr std::uint8_t kHeaderWords = proto::Ipv4::kSize / 4;
  return v4.get<proto::Ipv4::Version>() == 4 && v4.get<proto::Ipv4::HeaderWords>() == kHeaderWords &&
         v4.get<proto::Ipv4::Checksum>() == proto::ipv4_checksum(header);
}

/// RoCEv2 over IPv4 leaves the first 20 bytes of the area alone: they may hold anything. Hence the order, which is
/// rdma-core's.
Came came_from(const struct ibv_grh& grh) {
  std::array<std::uint8_t, proto::Grh::kSize> area;
  static_assert(sizeof grh == proto::Grh::kSize);
  std::memcpy(area.data(), &grh, area.size());
  const std::uint8_t* const header = area.data() + (proto::Grh::kSize - proto::Ipv4::kSize);
  const proto::ConstView<proto::Ipv6> v6{area.data()};
  Came came;
  if (v6.get<proto::Ipv6::Version>() == 6 && !is_ipv4(header)) {
    came.from = gid_from(area.data() + 8);
    came.to = gid_from(area.data() + 24);
    came.tclass = v6.get<proto::Ipv6::TClass>();
    came.hop_limit = v6.get<proto::Ipv6::HopLimit>();
    came.flow_label = v6.get<proto::Ipv6::FlowLabel>();
    return came;
  }
  const proto::ConstView<proto::Ipv4> v4{header};
  came.from = proto::Gid::from_v4(header[12], header[13], header[14], header[15]);
  came.to = proto::Gid::from_v4(header[16], header[17], header[18], header[19]);
  came.tclass = v4.get<proto::Ipv4::Tos>();
  came.hop_limit = v4.get<proto::Ipv4::Ttl>();
  return came;
}

/// refuse(), for functions that return -1.
int minus_one(int error, const std::string& sentence) {
  refuse(error, sentence);
  return -1;
}

}  // namespace

void take_from_nic(AddressHandle& ah) {
  const NicLock lock(*context_of(ah.context).adapter, NicLock::Purpose::kCleanUp);
  if (!lock) return;
  lock->remove_ah(ah.nic_pd);
  release(lock, ah.source_port);
}

namespace impl {

struct ibv_ah* ibv_create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr) {
  Context& context = context_of(pd->context);
  auto path = path_to(*context.adapter, *attr, Reach::kAny);
  if (!path.ok()) {
    errno = path.error();
    return nullptr;
  }
  NewObject ah(context, &Context::ahs);
  ah->context = pd->context;
  ah->pd = pd;
  ah->nic_pd = own(pd)->nic_pd;
  {
    const NicLock lock(*context.adapter);
    if (!lock) return refuse_null(refuse_without_nic(), last_error());
    const auto held = hold(lock, *path, wanted_source_port(*attr, *path));
    if (!held.ok()) return refuse_null(held.error(), last_error());
    ah->source_port = *held;
    if (lock->add_ah(ah->nic_pd) != 0) {
      release(lock, ah->source_port);
      return refuse_null(ENOMEM, "the NIC has " + std::to_string(nic::kMaxAh) + " address handles, and no more");
    }
  }
  ah->path = *path;
  return ah.keep();
}

int ibv_destroy_ah(struct ibv_ah* ah) {
  Context& context = context_of(ah->context);
  if (destroy_leftover(context, &Context::ahs, own(ah))) return 0;
  {
    const std::scoped_lock lock(context.objects_mutex);
    context.ahs.erase(own(ah));
  }
  take_from_nic(*own(ah));
  delete own(ah);
  return 0;
}

// Returns 0, or -1 with errno: EINVAL: a packet to a group, or to none of our GIDs.
int ibv_init_ah_from_wc(struct ibv_context* context, std::uint8_t port_num, struct ibv_wc* wc, struct ibv_grh* grh,
                        struct ibv_ah_attr* attr) {
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  if (port_num != 1) return minus_one(EINVAL, "the NIC has port 1 only");
  const Came came = came_from(*grh);
  const auto& gids = context_of(context).adapter->gids();
  const auto ours = std::find(gids.begin(), gids.end(), came.to);
  if (ours == gids.end()) return minus_one(EINVAL, "the packet was sent to none of the GIDs of this port");
  attr->is_global = 1;
  std::memcpy(attr->grh.dgid.raw, came.from.raw.data(), came.from.raw.size());
  attr->grh.sgid_index = static_cast<std::uint8_t>(ours - gids.begin());
  attr->grh.hop_limit = came.hop_limit;
  attr->grh.traffic_class = came.tclass;
  attr->grh.flow_label = came.flow_label;
  return 0;
}

struct ibv_ah* ibv_create_ah_from_wc(struct ibv_pd* pd, struct ibv_wc* wc, struct ibv_grh* grh, std::uint8_t port_num) {
  struct ibv_ah_attr attr;
  if (impl::ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return impl::ibv_create_ah(pd, &attr);
}

}  // namespace impl
}  // namespace uroce::ibv
