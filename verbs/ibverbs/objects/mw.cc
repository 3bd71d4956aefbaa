// SPDX-License-Identifier: Apache-2.0
// Memory windows.
#include "engine/os/os_clock.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::ibv::impl {

struct ibv_mw* alloc_mw(struct ibv_pd* pd, enum ibv_mw_type type) {
  if (raw(type) != IBV_MW_TYPE_1 && raw(type) != IBV_MW_TYPE_2) {
    return refuse_null(EINVAL, "memory windows are of type 1 or 2");
  }
  Context& context = context_of(pd->context);
  NewObject mw(context, &Context::mws);
  {
    const NicLock lock(*context.adapter);
    const auto made =
        lock ? lock->mrs().add_window(own(pd)->nic_pd, static_cast<nic::MwType>(type)) : Err{refuse_without_nic()};
    if (!made.ok()) {
      errno = made.error();
      return nullptr;
    }
    mw->nic_mw = *made;
  }
  mw->context = pd->context;
  mw->pd = pd;
  mw->type = type;
  mw->rkey = mw->nic_mw->key;
  mw->handle = mw->nic_mw->key >> 8;
  return mw.keep();
}

// A window that is bound is taken back.
int dealloc_mw(struct ibv_mw* mw) {
  MemoryWindow* const ours = own(mw);
  Context& context = context_of(mw->context);
  if (destroy_leftover(context, &Context::mws, ours)) return 0;
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    lock->mrs().remove_window(ours->nic_mw);
  }
  const std::scoped_lock lock(context.objects_mutex);
  context.mws.erase(ours);
  delete ours;
  return 0;
}

// Type 1 only: <infiniband/verbs.h> lets no other through. The window has its new rkey at once, which the peer may use
// as soon as the bind has completed.
int bind_mw(struct ibv_qp* qp, struct ibv_mw* mw, struct ibv_mw_bind* bind) {
  const struct ibv_mw_bind_info& info = bind->bind_info;
  if (info.mr == nullptr && info.length != 0) return refuse(EINVAL, "without a region there is nothing to bind to");
  if ((info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) {
    return refuse(EINVAL, "only windows of type 2 can be zero-based");
  }
  NicLock lock(*context_of(qp->context).adapter);
  if (!lock) return refuse_without_nic();
  nic::SendWr wr;
  wr.wr_id = bind->wr_id;
  wr.op = nic::SendOp::kBindMw;
  wr.flags = bind->send_flags & (nic::kFence | nic::kSignaled);
  const std::uint32_t new_key = ibv_inc_rkey(mw->rkey);
  wr.bind = from_bind(*mw, new_key, info);
  nic::Qp* const nic_qp = own(qp)->nic_qp;
  if (nic_qp->state() == nic::QpState::kErr) lock->set_time(engine::os_now());  // It completes at once.
  if (const int error = lock->post_send(nic_qp, wr)) return error;
  mw->rkey = new_key;
  lock.posted_wrs();
  return 0;
}

}  // namespace uroce::ibv::impl
