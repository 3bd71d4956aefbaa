// SPDX-License-Identifier: Apache-2.0
// Work requests.
#include "verbs/ibverbs/objects/post.h"

#include <type_traits>

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::ibv {
namespace {

/// Where the WR of a UD QP goes.
nic::UdTarget target_of(const struct ibv_send_wr& wr) {
  const AddressHandle& ah = *own(wr.wr.ud.ah);
  return {ah.path, wr.wr.ud.remote_qpn & nic::Psn::kMask, wr.wr.ud.remote_qkey, ah.nic_pd};
}

/// Posts a list of WRs, one by one with `post_one(lock, wr)`. 0, or an errno value with *bad_wr at the first WR that
/// was refused; those before it stay posted.
template <class Wr, class PostOne>
int post_list(struct ibv_qp* qp, Wr* wr, Wr** bad_wr, const PostOne& post_one) {
  const nic::Qp& nic_qp = *own(qp)->nic_qp;
  NicLock lock(*context_of(qp->context).adapter);
  if (!lock) {
    *bad_wr = wr;
    return refuse_without_nic();
  }
  const bool completes_at_once = nic_qp.state() == nic::QpState::kErr;
  if (completes_at_once) lock->set_time(engine::os_now());
  const bool had_work = lock->has_work();
  int error = 0;
  bool is_any_posted = false;
  for (; wr != nullptr; wr = wr->next) {
    error = post_one(lock, *wr);
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    is_any_posted = true;
  }
  lock.touch(nic_qp);
  const bool gave_work = lock->has_work() && (!had_work || completes_at_once);
  if ((std::is_same_v<Wr, struct ibv_send_wr> && is_any_posted) || gave_work) lock.posted_wrs();
  return error;
}

}  // namespace

Result<nic::SendWr, nic::Errno> to_nic(const QueuePair& qp, const struct ibv_send_wr& wr, SgeArray& sges,
                                       nic::UdTarget& target) {
  auto converted = from_wr(wr, sges);
  if (!converted.ok() || qp.nic_qp->type() != nic::QpType::kUd) return converted;
  // Others, which the NIC refuses, have something else in the place of the address handle.
  const bool has_target = converted->op == nic::SendOp::kSend || converted->op == nic::SendOp::kSendImm;
  if (has_target && wr.wr.ud.ah != nullptr) {
    target = target_of(wr);
    converted->target = &target;
  }
  return converted;
}

namespace impl {

// See post_list().
int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  return post_list(qp, wr, bad_wr, [qp](NicLock& lock, const struct ibv_send_wr& one) -> int {
    SgeArray sges;
    nic::UdTarget target;
    const auto converted = to_nic(*own(qp), one, sges, target);
    return converted.ok() ? lock->post_send(own(qp)->nic_qp, *converted) : converted.error();
  });
}

// See post_list().
int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  return post_list(qp, wr, bad_wr, [qp](NicLock& lock, const struct ibv_recv_wr& one) -> int {
    SgeArray sges;
    const auto converted = from_wr(one, sges);
    return converted.ok() ? lock->post_recv(own(qp)->nic_qp, *converted) : converted.error();
  });
}

}  // namespace impl
}  // namespace uroce::ibv
