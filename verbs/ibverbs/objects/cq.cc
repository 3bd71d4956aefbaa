// SPDX-License-Identifier: Apache-2.0
// Completion queues.
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/look.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

int check_cqe(int cqe) {
  if (cqe >= 1 && cqe <= static_cast<int>(nic::kMaxCqe)) return 0;
  return refuse(EINVAL, "a CQ holds 1 to " + std::to_string(nic::kMaxCqe) + " entries, not " + std::to_string(cqe));
}

void unregister_cq(Context& context, CompletionQueue* cq) {
  const std::scoped_lock lock(context.objects_mutex);
  if (cq->channel != nullptr) --cq->channel->refcnt;
  context.cqs.erase(cq);
}

/// Takes completions that are there; at most `wanted`.
int take(CompletionQueue& cq, int wanted, struct ibv_wc* wc) {
  return static_cast<int>(cq.nic_cq->poll(static_cast<std::size_t>(wanted),
                                          [&wc](const nic::Completion& completion) { to_wc(completion, *wc++); }));
}

/// Whether the program, which arms the CQ, is going to sleep without another look at it: it has emptied a channel that
/// does not block. UCX does so. It relies on cards that know what has been polled, and raise an event at once when
/// there is more, as ConnectX do.
bool will_sleep(const CompletionQueue& cq) {
  return cq.channel != nullptr && own(cq.channel)->said_again.load(std::memory_order_relaxed);
}

}  // namespace

namespace impl {

struct ibv_cq* ibv_create_cq(struct ibv_context* context, int cqe, void* cq_context, struct ibv_comp_channel* channel,
                             int comp_vector) {
  if (const int error = check_cqe(cqe)) {
    errno = error;
    return nullptr;
  }
  if (comp_vector < 0 || comp_vector >= context->num_comp_vectors) {
    return refuse_null(EINVAL, "completion vector " + std::to_string(comp_vector) + ": the NIC has vector 0 only");
  }
  if (channel != nullptr && channel->context != context) {
    return refuse_null(EINVAL, "the completion channel belongs to another context");
  }
  Context& owner = context_of(context);
  NewObject cq(owner, &Context::cqs);
  {
    const NicLock lock(*owner.adapter);
    auto made = lock ? lock->create_cq(static_cast<std::uint32_t>(cqe), cq.get()) : Err{refuse_without_nic()};
    if (!made.ok()) {
      errno = made.error();
      return nullptr;
    }
    cq->nic_cq = *made;
  }
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = cqe;
  init_ack(*cq.get());
  if (channel != nullptr) {
    const std::scoped_lock lock(owner.objects_mutex);
    ++channel->refcnt;
  }
  return ibv_cq_ex_to_cq(cq.keep());
}

int ibv_resize_cq(struct ibv_cq* cq, int cqe) {
  if (const int error = check_cqe(cqe)) return error;
  CompletionQueue& ours = *own(cq);
  const NicLock lock(*context_of(cq->context).adapter);
  if (!lock) return refuse_without_nic();
  if (const int error = ours.nic_cq->resize(static_cast<std::uint32_t>(cqe))) {
    if (error == ENOMEM) return refuse(error, "no memory for so many entries");
    return refuse(error,
                  std::to_string(ours.nic_cq->size()) + " completions wait to be polled: too many for the new size");
  }
  cq->cqe = cqe;
  return 0;
}

int ibv_destroy_cq(struct ibv_cq* cq) {
  CompletionQueue* const ours = own(cq);
  Context& context = context_of(cq->context);
  if (destroy_leftover(context, &Context::cqs, ours)) return 0;
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    if (const int error = lock->destroy_cq(ours->nic_cq)) return refuse(error, "QPs use the CQ");
  }
  // From here on nothing raises events for it; what was raised and not fetched is dropped.
  if (cq->channel != nullptr) {
    context.adapter->on_cq_events_dropped(
        own(cq->channel)->events.remove_if([ours](const CompletionQueue* other) { return other == ours; }));
  }
  context.async_events.remove_if([ours](const AsyncEvent& event) { return event.cq == ours; });
  await_acknowledged<struct ibv_cq_ex>(context, *ours, &ibv_cq_ex::comp_events_completed, ours->comp_events_delivered);
  await_acknowledged<struct ibv_cq_ex>(context, *ours, &ibv_cq_ex::async_events_completed,
                                       ours->async_events_delivered);
  unregister_cq(context, ours);
  destroy_ack(*ours);
  delete ours;
  return 0;
}

int req_notify_cq(struct ibv_cq* cq, int solicited_only) {
  const NicLock lock(*context_of(cq->context).adapter);
  if (!lock) return refuse_without_nic();
  CompletionQueue& ours = *own(cq);
  if (!will_sleep(ours)) {
    ours.nic_cq->arm(solicited_only != 0);
  } else if (ours.nic_cq->notify_or_arm(solicited_only != 0)) {
    notify(ours);
  }
  ours.armed_since_poll = true;
  lock.stop_polling();
  return 0;
}

int poll_cq(struct ibv_cq* cq, int num_entries, struct ibv_wc* wc) {
  if (num_entries <= 0) return 0;
  CompletionQueue& ours = *own(cq);
  int taken = 0;
  const auto found = look(ours, [&] { return (taken = take(ours, num_entries, wc)) > 0; });
  return found.ok() ? taken : -found.error();
}

}  // namespace impl
}  // namespace uroce::ibv
