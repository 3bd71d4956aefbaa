// SPDX-License-Identifier: Apache-2.0
// Multicast groups of UD QPs.
#include <algorithm>
#include <cstring>

#include "proto/address.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::ibv {
namespace {

proto::Gid gid_of(const union ibv_gid& gid) {
  proto::Gid out;
  std::memcpy(out.raw.data(), gid.raw, out.raw.size());
  return out;
}

}  // namespace

namespace impl {

// 0 also when the QP is attached already. EINVAL: not a UD QP, not a multicast address; EADDRNOTAVAIL, ENODEV ...: no
// interface of the NIC takes the group; ENOMEM: too many groups, or QPs in one. The LID means nothing on RoCE.
int ibv_attach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t) {
  const QueuePair& ours = *own(qp);
  const proto::Gid group = gid_of(*gid);
  if (ours.nic_qp->type() != nic::QpType::kUd) return refuse(EINVAL, "only UD queue pairs join multicast groups");
  if (!group.is_multicast()) return refuse(EINVAL, proto::to_string(group) + " is no multicast address");
  const NicLock lock(adapter_of(ours));
  if (!lock) return refuse_without_nic();
  if (lock->is_attached(ours.nic_qp, group)) return 0;
  if (const int error = lock.port().join_group(group)) {
    return refuse(error, "can't join " + proto::to_string(group) + ": " + std::strerror(error));
  }
  const int error = lock->attach_multicast(ours.nic_qp, group);
  if (error == 0) return 0;
  lock.port().leave_group(group);
  return refuse(error, "too many multicast groups, or queue pairs in one");
}

// EINVAL: the QP is not attached to the group.
int ibv_detach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t) {
  const QueuePair& ours = *own(qp);
  const proto::Gid group = gid_of(*gid);
  const NicLock lock(adapter_of(ours));
  if (!lock) return refuse_without_nic();
  if (lock->detach_multicast(ours.nic_qp, group) != 0) return refuse(EINVAL, "the queue pair is not in that group");
  lock.port().leave_group(group);
  return 0;
}

}  // namespace impl
}  // namespace uroce::ibv
