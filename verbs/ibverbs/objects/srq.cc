// SPDX-License-Identifier: Apache-2.0
// Shared receive queues.
#include "verbs/nic/resources/srq.h"

#include <algorithm>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

Adapter& adapter_of(const struct ibv_srq& srq) { return *context_of(srq.context).adapter; }

int check_capacity(const struct ibv_srq_attr& attr) {
  if (attr.max_wr >= 1 && attr.max_wr <= nic::kMaxSrqWr && attr.max_sge <= nic::kMaxSrqSge) return 0;
  return refuse(EINVAL, "an SRQ takes 1 to " + std::to_string(nic::kMaxSrqWr) + " WRs of at most " +
                            std::to_string(nic::kMaxSrqSge) + " SGEs");
}

}  // namespace

namespace impl {

struct ibv_srq* ibv_create_srq(struct ibv_pd* pd, struct ibv_srq_init_attr* init) {
  if (const int error = check_capacity(init->attr)) {
    errno = error;
    return nullptr;
  }
  Context& context = context_of(pd->context);
  NewObject srq(context, &Context::srqs);
  nic::SrqInit wanted;
  wanted.pd = own(pd)->nic_pd;
  wanted.max_wr = init->attr.max_wr;
  wanted.max_sge = std::max(init->attr.max_sge, 1u);
  wanted.user = srq.get();
  {
    const NicLock lock(*context.adapter);
    const auto made = lock ? lock->create_srq(wanted) : Err{refuse_without_nic()};
    if (!made.ok()) {
      errno = made.error();
      return nullptr;
    }
    srq->nic_srq = *made;
  }
  srq->context = pd->context;
  srq->srq_context = init->srq_context;
  srq->pd = pd;
  srq->handle = srq->nic_srq->number();
  init_ack(*srq.get());
  init->attr.max_sge = wanted.max_sge;  // srq_limit means nothing here (ibv_create_srq(3)).
  return srq.keep();
}

// Programs come here for what ibv_create_srq() cannot say; the rest never leaves the inline function.
struct ibv_srq* create_srq_ex(struct ibv_context*, struct ibv_srq_init_attr_ex* init) {
  const bool basic = (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || raw(init->srq_type) == IBV_SRQT_BASIC;
  if (!basic) return refuse_null(EOPNOTSUPP, "the NIC has basic SRQs only: no XRC, no tag matching");
  if ((init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) return refuse_null(EINVAL, "an SRQ needs a protection domain");
  struct ibv_srq_init_attr basic_init {
    init->srq_context, init->attr
  };
  struct ibv_srq* const srq = impl::ibv_create_srq(init->pd, &basic_init);
  init->attr = basic_init.attr;
  return srq;
}

int ibv_modify_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr, int mask) {
  nic::Srq& ours = *own(srq)->nic_srq;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
    return refuse(EINVAL, "an SRQ has the attributes IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT only");
  }
  const NicLock lock(adapter_of(*srq));
  if (!lock) return refuse_without_nic();
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0, arms = (mask & IBV_SRQ_LIMIT) != 0;
  // Both or neither: the limit is judged by the size to come.
  if (arms && attr->srq_limit > (resizes ? attr->max_wr : ours.max_wr())) {
    return refuse(EINVAL, "srq_limit is larger than the queue");
  }
  if (resizes) {
    if (const int error = ours.resize(attr->max_wr, arms ? attr->srq_limit : ours.limit())) {
      return refuse(error, std::to_string(ours.size()) + " receives are posted and the limit is " +
                               std::to_string(ours.limit()) + ": max_wr " + std::to_string(attr->max_wr) +
                               " is too small, or above " + std::to_string(nic::kMaxSrqWr));
    }
  }
  return arms ? ours.arm(attr->srq_limit) : 0;
}

int ibv_query_srq(struct ibv_srq* srq, struct ibv_srq_attr* attr) {
  const NicLock lock(adapter_of(*srq));
  if (!lock) return refuse_without_nic();
  const nic::Srq& ours = *own(srq)->nic_srq;
  attr->max_wr = ours.max_wr();
  attr->max_sge = ours.max_sge();
  attr->srq_limit = ours.limit();
  return 0;
}

int ibv_destroy_srq(struct ibv_srq* srq) {
  SharedReceiveQueue* const ours = own(srq);
  Context& context = context_of(srq->context);
  if (destroy_leftover(context, &Context::srqs, ours)) return 0;
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    if (const int error = lock->destroy_srq(ours->nic_srq)) return refuse(error, "QPs are attached to the SRQ");
  }
  // From here on nothing raises events for it.
  context.async_events.remove_if([ours](const AsyncEvent& event) { return event.srq == ours; });
  await_acknowledged<struct ibv_srq>(context, *srq, &ibv_srq::events_completed, ours->async_events_delivered);
  {
    const std::scoped_lock lock(context.objects_mutex);
    context.srqs.erase(ours);
  }
  destroy_ack(*ours);
  delete ours;
  return 0;
}

int get_srq_num(struct ibv_srq* srq, std::uint32_t* number) {
  *number = own(srq)->nic_srq->number();
  return 0;
}

// 0, or an errno value with *bad_wr at the first WR that was refused; those before it stay posted.
int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  nic::Srq& ours = *own(srq)->nic_srq;
  const NicLock lock(adapter_of(*srq));
  int error = lock ? 0 : refuse_without_nic();
  for (; error == 0 && wr != nullptr; wr = wr->next) {
    SgeArray sges;
    const auto converted = from_wr(*wr, sges);
    error = converted.ok() ? ours.post(*converted) : converted.error();
    if (error != 0) break;
  }
  if (error != 0) *bad_wr = wr;
  return error;
}

}  // namespace impl
}  // namespace uroce::ibv
