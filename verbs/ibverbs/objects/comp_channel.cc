// SPDX-License-Identifier: Apache-2.0
// Completion channels: a descriptor to sleep on until an armed CQ gets a completion.
#include <utility>

#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

/// A NIC that stays as long as a thread may sleep on it. The program may close the device meanwhile.
class Holder {
 public:
  explicit Holder(const Context& context) : owner_(context.owner), adapter_(context.adapter) {}
  ~Holder() noexcept(false) {
    if (adapter_.use_count() > 1) return;  // The device is open: no need for its lock, once for each event.
    const NoCancellation whole;
    // The last one closes the NIC; who opens the device then waits for that. Not in a signal handler of who does.
    if (!is_inside_device()) owner_.close(std::move(adapter_));
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  Adapter* operator->() const { return adapter_.get(); }

 private:
  Device& owner_;
  std::shared_ptr<Adapter> adapter_;
};

}  // namespace

namespace impl {

struct ibv_comp_channel* ibv_create_comp_channel(struct ibv_context* context) {
  NewObject channel(context_of(context), &Context::channels);
  channel->context = context;
  if (channel->fd < 0) return refuse_null(errno, "no file descriptor for another completion channel");
  return channel.keep();
}

int ibv_destroy_comp_channel(struct ibv_comp_channel* channel) {
  CompChannel* const ours = own(channel);
  Context& context = context_of(channel->context);
  if (destroy_leftover(context, &Context::channels, ours)) return 0;
  {
    const std::scoped_lock lock(context.objects_mutex);
    if (channel->refcnt > 0) {
      return refuse(EBUSY, "the completion channel serves " + std::to_string(channel->refcnt) + " CQs");
    }
    context.channels.erase(ours);
  }
  ours->events.end();
  delete ours;
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel* channel, struct ibv_cq** cq, void** cq_context) {
  CompletionQueue* source = nullptr;
  const Holder holder(context_of(channel->context));
  const int error = own(channel)->events.take(
      source, [](CompletionQueue* taken) { ++taken->comp_events_delivered; },
      [&](int fd, const auto& holds_any) { return holder->sleep_until_readable(fd, holds_any); });
  // After another error there may be no channel any more.
  if (error == 0 || error == EAGAIN) own(channel)->said_again.store(error == EAGAIN, std::memory_order_relaxed);
  if (error != 0) {
    errno = error;
    return -1;
  }
  holder->on_cq_event_taken();
  *cq = ibv_cq_ex_to_cq(source);
  *cq_context = source->cq_context;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq* cq, unsigned int nevents) {
  if (nevents != 0) acknowledge<struct ibv_cq_ex>(*own(cq), &ibv_cq_ex::comp_events_completed, nevents);
}

}  // namespace impl
}  // namespace uroce::ibv
